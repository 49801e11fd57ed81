export { LevelMetadataStore, type LevelMetadataStoreOptions } from './level-metadata-store.ts'
export { referenceOfRow } from './reference-of-row.ts'
