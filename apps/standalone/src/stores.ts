/** The two stores in the data directory, metadata and bytes, with what both depend on. */
import { clockGuardMetric, diskMetrics, metadataMetrics, storeMetrics } from '@holdfast/admin'
import { type DescriptorBudget, openKeptKeyring, signDataFormat } from '@holdfast/bootstrap'
import type { Config } from '@holdfast/config'
import type { LevelMetadataStore } from '@holdfast/journal-level'
import type { Clock } from '@holdfast/kernel'
import { openStore } from '@holdfast/storage-role/store'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { ClockGuard } from './clock-guard.ts'
import { openEmbeddedMetadata, openMetadataForReading, prepareDataDir } from './data-dir.ts'
import { ReadingCopies } from './full-disk.ts'

export interface StoresOptions {
  config: Config
  descriptors: DescriptorBudget
  /** Closes what was opened, in reverse order. */
  opened: AsyncDisposableStack
  metrics: Registry
  clock: Clock
  log: Logger
}

/** @param options.onlyReads the disk is full: both are opened as copies, and change nothing. */
export async function openStores({
  config,
  descriptors,
  opened,
  metrics,
  onlyReads,
  clock,
  log,
}: StoresOptions & { onlyReads: boolean }) {
  const dir = await prepareDataDir(config.dataDir, { requireStore: config.requireStore, log })
  const copies = opened.use(new ReadingCopies(dir, log))
  const metadata = await (onlyReads ? openMetadataForReading : openEmbeddedMetadata)(dir, copies, log)
  opened.defer(() => metadata.close())
  await copies.removeOld()
  const { lookups } = metadata
  const clockGuard = await ClockGuard.open({ lookups, aheadMaxMs: config.clockJumpMs, clock, log })
  opened.defer(() => clockGuard.close())
  const keyring = await openKeptKeyring({
    lookups,
    copy: dir.masterKey,
    isNew: async () => !(await mayHaveAccounts(metadata)),
    onNoCopy: (err) => log.warn({ err }, 'the copy of the master key cannot be written'),
  })

  const blobs = await openStore({
    path: dir.blobs,
    cataloguesIn: onlyReads ? await copies.ofCatalogues() : undefined,
    config: config.store,
    openExtentsMax: descriptors.openExtentsMax,
    pinnedAtFirstMs: 0,
    clock,
    log,
  })
  opened.defer(() => blobs.close())
  // without room for a small file the service still serves what it has
  await signDataFormat(config.dataDir).catch((err) => log.warn({ err }, 'the release could not be noted'))
  clockGuardMetric(metrics, () => clockGuard.offsetMs)
  storeMetrics(metrics, blobs)
  diskMetrics(metrics, blobs)
  metadataMetrics(metrics, {
    isWritable: () => metadata.failure === undefined,
    lostBatches: () => metadata.lostBatches,
    unauditedBatches: () => metadata.unauditedBatches,
  })
  return { outbox: dir.outbox, metadata, clockGuard, keyring, blobs, onlyReads }
}

async function mayHaveAccounts({ journals, damage }: LevelMetadataStore): Promise<boolean> {
  for await (const _ of journals.accounts()) return true
  return damage.lostRanges > 0
}

export type Stores = Awaited<ReturnType<typeof openStores>>
