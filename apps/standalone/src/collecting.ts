/** Which bytes may go: those that no reference row names, as long as the rows can be trusted. */
import { type AccountClient, Reconciler, roundInWords, systemTimers } from '@holdfast/actor-runtime'
import { Collector } from '@holdfast/blob-store'
import type { ChunkStore } from '@holdfast/chunk-store'
import { referencedOf } from '@holdfast/journal'
import type { LevelMetadataStore } from '@holdfast/journal-level'
import type { Clock } from '@holdfast/kernel'
import type { Config } from '@holdfast/process'
import type { Logger } from 'pino'

export interface CollectingParts {
  config: Config['collect']
  blobs: ChunkStore
  metadata: LevelMetadataStore
  /** What no account claims in a round of all of them may go. */
  rounds: () => Pick<Reconciler, 'confirmedMs' | 'wanted'>
  clock: Clock
  log: Logger
}

export function createCollector({ config, blobs, metadata, rounds, clock, log }: CollectingParts): Collector {
  return new Collector({
    blobs,
    referenced: (some) => referencedOf(metadata.lookups, some),
    accounts: { confirmedMs: () => rounds().confirmedMs(), wanted: () => rounds().wanted() },
    distrust: () => distrustOf(metadata) ?? blobs.health.gap,
    ...config,
    clock,
    log: log.child({ part: 'collector' }),
  })
}

/** Compares the references with all accounts of the store. */
export function createReconciler({
  config,
  accounts,
  metadata: { journals, lookups },
  clock,
  log,
}: {
  config: Config['reconcile']
  accounts: AccountClient
  metadata: LevelMetadataStore
  clock: Clock
  log: Logger
}): Reconciler {
  const from = (after: string | undefined) => (after === undefined ? {} : { after })
  return new Reconciler({
    accounts,
    listAccounts: (after) => journals.accounts(from(after)),
    listReferences: (after) => lookups.walk('ref', from(after)),
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

const roundsKey = 'reconcile/rounds'
/** The answer of a pass that takes longer says so; it goes on behind the scenes. */
const reconcileMs = 9 * 60_000

/** The operator's round. */
export async function reconcileNow(reconciler: Reconciler, { dryRun }: { dryRun: boolean }): Promise<object> {
  return roundInWords(await reconciler.reconcile({ dryRun, signal: AbortSignal.timeout(reconcileMs) }))
}

/**
 * The operator's pass: collects, gives the space back to the disk where that takes no longer than a
 * request, and tells what is left.
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
