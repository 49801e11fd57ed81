export { referenceOfRow, rowsOfJournals } from './kinds-of-rows.ts'
export { LevelMetadataStore, type LevelMetadataStoreOptions } from './level-metadata-store.ts'
