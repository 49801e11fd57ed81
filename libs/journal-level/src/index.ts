export {
  isLocked,
  LevelMetadataStore,
  type LevelMetadataStoreOptions,
  metadataStoreDefaults,
} from './level-metadata-store.ts'
export type { MetadataDamage } from './opening/rows.ts'
export { referenceOfRow, rowsOfJournals } from './rows/kinds-of-rows.ts'
