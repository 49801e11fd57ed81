export { JournalFault, type JournalFaultCode } from './errors.ts'
export type { JournalHold, JournalReplica, JournalRow, JournalStore } from './journal-store.ts'
export {
  assertAccount,
  assertChange,
  assertCount,
  assertLookupKey,
  assertLookupRow,
  assertPage,
  assertRoot,
  assertRow,
  maxAccountBytes,
  maxEventBytes,
  maxFlushBytes,
  maxLookupKeyBytes,
  maxLookupValueBytes,
  maxPageBytes,
  maxPageNameBytes,
  maxRootBytes,
  maxTakeCount,
} from './limits.ts'
export type { LookupChange, LookupRow, LookupStore } from './lookup-store.ts'
export { chainBytes, firstChain, rowChecksum } from './row-checksum.ts'
