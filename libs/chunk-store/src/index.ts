export { ChunkStore } from './chunk-store.ts'
export type { Log } from './log.ts'
export { type ChunkStoreMachine, type ChunkStoreOptions, chunkStoreDefaults } from './options.ts'
