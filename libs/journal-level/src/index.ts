export { LevelMetadataStore, type LevelMetadataStoreOptions } from './level-metadata-store.ts'
