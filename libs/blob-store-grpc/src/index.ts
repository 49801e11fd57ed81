export type { CallProof } from './cluster-secret.ts'
export { type NodeBounds, type NodeFigures, type RefusalReason, refusalReasons } from './node-load.ts'
export {
  RemoteBlobStore,
  type RemoteBlobStoreOptions,
  type RemoteBlobStoreTuning,
} from './remote-blob-store.ts'
export {
  type BlobStoreServer,
  type ServeBlobStoreOptions,
  serveBlobStore,
} from './serve-blob-store.ts'
export type { ServedStore } from './served-store.ts'
