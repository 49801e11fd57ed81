export { ChunkStore, type ChunkStoreMachine, type ChunkStoreOptions } from './chunk-store.ts'
export type { Log } from './log.ts'
