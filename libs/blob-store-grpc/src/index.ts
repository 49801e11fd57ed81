export {
  RemoteBlobStore,
  type RemoteBlobStoreOptions,
  type RemoteBlobStoreTuning,
} from './client/remote-blob-store.ts'
export type { CallProof } from './cluster-secret.ts'
export { type NodeBounds, type NodeFigures, type RefusalReason, refusalReasons } from './server/node-load.ts'
export {
  type BlobStoreServer,
  type ServeBlobStoreOptions,
  serveBlobStore,
} from './server/serve-blob-store.ts'
export type { ServedStore } from './server/served-store.ts'
