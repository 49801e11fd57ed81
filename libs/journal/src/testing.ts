export {
  type JournalContract,
  journalAccountsContract,
  journalRepairContract,
  journalStoreContract,
  type OpenedJournals,
} from './journal-contract.ts'
export {
  type LookupContract,
  lookupStoreContract,
  lookupWalkContract,
  type OpenedLookups,
} from './lookup-contract.ts'
export { MemoryJournalStore } from './memory-journal-store.ts'
export { MemoryLookupStore } from './memory-lookup-store.ts'
export { type Hold, MemoryMedium, type MemoryOperation, type PlantedFault } from './memory-medium.ts'
export { MemoryWholeStore } from './memory-whole-store.ts'
export { type OpenedWhole, wholeStoreContract } from './whole-contract.ts'
