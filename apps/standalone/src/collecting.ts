/** Deletes bytes without a reference row, while the rows can be trusted. */

import type { AccountClient } from '@holdfast/accounts'
import { Reconciler, reconcileAnsweredMs, roundInWords } from '@holdfast/actor-runtime'
import { Collector } from '@holdfast/blob-store'
import type { ChunkStore } from '@holdfast/chunk-store'
import type { Config } from '@holdfast/config'
import { referencedOf } from '@holdfast/journal'
import type { LevelMetadataStore } from '@holdfast/journal-level'
import { type Clock, systemTimers } from '@holdfast/kernel'
import type { Logger } from 'pino'

export interface CollectingDeps {
  config: Config['collect']
  blobs: ChunkStore
  metadata: LevelMetadataStore
  /** The rounds of the reconciler: rows that no account claims in a full round may be deleted. */
  rounds: () => Pick<Reconciler, 'confirmedMs' | 'wanted'>
  clock: Clock
  log: Logger
}

export function createCollector({ config, blobs, metadata, rounds, clock, log }: CollectingDeps): Collector {
  return new Collector({
    blobs,
    referenced: (some) => referencedOf(metadata.lookups, some),
    accounts: { confirmedMs: () => rounds().confirmedMs(), wanted: () => rounds().wanted() },
    distrust: () => distrustOf(metadata) ?? blobs.health.gap,
    ...config,
    everything: false,
    notes: blobs,
    clock,
    log: log.child({ part: 'collector' }),
  })
}

/** Compares the references with all accounts of the store. */
export function createReconciler({
  config,
  accounts,
  metadata,
  clock,
  log,
}: {
  config: Config['reconcile']
  accounts: AccountClient
  metadata: LevelMetadataStore
  clock: Clock
  log: Logger
}): Reconciler {
  const { lookups } = metadata
  return new Reconciler({
    accounts,
    ...walksOf(metadata),
    isOurs: () => true,
    scope: () => '',
    losses: () => metadata.lostBatches,
    leads: () => true,
    notes: {
      read: () => lookups.get(roundsKey),
      write: (value) => lookups.write([{ put: roundsKey, value }]),
    },
    ...config,
    clock,
    timers: systemTimers,
    log: log.child({ part: 'reconciler' }),
  })
}

/** All accounts and all references, from a place on. */
export function walksOf({ journals, lookups }: LevelMetadataStore) {
  const from = (after: string | undefined) => (after === undefined ? {} : { after })
  return {
    listAccounts: (after: string | undefined) => journals.accounts(from(after)),
    listReferences: (after: string | undefined) => lookups.walk('ref', from(after)),
  }
}

const roundsKey = 'reconcile/rounds'

/** The operator's round. */
export async function reconcileNow(reconciler: Reconciler, { dryRun }: { dryRun: boolean }): Promise<object> {
  return roundInWords(
    await reconciler.reconcile({ dryRun, signal: AbortSignal.timeout(reconcileAnsweredMs) }),
  )
}

/**
 * The operator's pass: collects, returns the space to the disk if that takes no longer than a
 * request, and reports what is left.
 */
export async function collectNow(
  { collector, blobs }: { collector: Collector; blobs: ChunkStore },
  options: { graceMs?: number },
): Promise<Record<string, unknown>> {
  const collected = await collector.collect(options)
  const { freedBytes: spaceFreedBytes } = await blobs.compact()
  const { liveBytes, blobs: count, diskBytes, freeBytes } = await blobs.usage()
  return { ...collected, spaceFreedBytes, liveBytes, blobs: count, diskBytes, freeBytes }
}

function distrustOf({ lostBatches, failure }: LevelMetadataStore): string | undefined {
  if (lostBatches > 0)
    return `${lostBatches} acknowledged batches of rows are missing: references may be among them`
  return failure?.message
}
