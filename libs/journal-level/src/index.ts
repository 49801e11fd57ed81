export { referenceOfRow, rowsOfJournals } from './kinds-of-rows.ts'
export {
  LevelMetadataStore,
  type LevelMetadataStoreOptions,
  metadataStoreDefaults,
} from './level-metadata-store.ts'
