/** For tests of what uploads to several nodes, and of what follows them. */
import { randomBytes } from 'node:crypto'
import { backgroundTimers, systemClock } from '@holdfast/kernel'
import type { ReplicatedBlobStoreOptions } from './replicated-blob-store.ts'
import type { ReplicatorOptions } from './replicator.ts'

const silent = { info() {}, warn() {} }

/** Default parts of a frontend in tests. It has no storage role, and knows no free space. */
export const plainFrontend: Omit<ReplicatedBlobStoreOptions, 'region' | 'groups' | 'peers'> = {
  localNode: undefined,
  refreshGroups: async () => {},
  freeBytesOf: () => undefined,
  clock: systemClock,
  timers: backgroundTimers,
  random: randomBytes,
  log: silent,
}

/** Default parts of a node that follows others: its collector hears of no deletion. */
export const plainReplicator: Omit<ReplicatorOptions, 'node' | 'peers' | 'region'> = {
  referenced: async () => true,
  deletedAtSource: () => {},
  clock: systemClock,
  timers: backgroundTimers,
  random: Math.random,
  log: silent,
}
