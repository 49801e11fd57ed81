export {
  assertAccount,
  assertChange,
  assertCount,
  assertLookupKey,
  assertLookupRow,
  assertPage,
  assertPrefixes,
  assertRoot,
  assertRow,
  maxEventBytes,
  maxFlushBytes,
  maxLookupValueBytes,
  maxPrefixes,
} from './bounds.ts'
export { corruptJournal, JournalFault, type JournalFaultCode } from './errors.ts'
export type { JournalRemain, JournalRepair } from './journal-repair.ts'
export {
  type AcquireOptions,
  type BackupResult,
  isUnwritten,
  type JournalAccounts,
  type JournalBackup,
  type JournalOwnership,
  type JournalReplica,
  type JournalRow,
  type JournalStore,
  rowBehind,
  unwrittenOwnership,
} from './journal-store.ts'
export {
  type LookupChange,
  type LookupRow,
  type LookupStore,
  type LookupWalk,
  lookupKeyOf,
  lookupKindOf,
} from './lookup-store.ts'
export {
  type CopyName,
  isReferenced,
  referencedOf,
  referenceKey,
  referencesKind,
  referencesOf,
} from './references.ts'
export { chainBytes, firstChain, rowChecksum } from './row-checksum.ts'
export {
  type AccountEntry,
  type CounterEntry,
  type EntryWriter,
  type JournalRowEntry,
  type LookupEntry,
  type PageEntry,
  restoredEpochsAhead,
  type StoredEntry,
  type WholeStore,
} from './whole-store.ts'
export { epochsPerTerm, termOfEpoch, writesPerEpochMax, writeTimeOf } from './write-time.ts'
