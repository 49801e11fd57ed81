import { type LevelMetadataStoreOptions, metadataStoreDefaults } from './level-metadata-store.ts'

/** The options of a test's store, without its path. */
export const testMetadataStore: Omit<LevelMetadataStoreOptions, 'path'> = {
  ...metadataStoreDefaults,
  onFailure: () => {},
  onReopened: () => {},
  onDamage: () => {},
  onUnaudited: () => {},
  ballastBytes: 0,
  copyForReading: undefined,
}
