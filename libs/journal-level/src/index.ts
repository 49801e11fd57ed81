export { referenceOfRow, rowsOfJournals } from './kinds-of-rows.ts'
export {
  isLocked,
  LevelMetadataStore,
  type LevelMetadataStoreOptions,
  metadataStoreDefaults,
} from './level-metadata-store.ts'
export type { MetadataDamage } from './rows.ts'
