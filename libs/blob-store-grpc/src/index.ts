export { type CallProof, ClusterSecret } from './cluster-secret.ts'
export { RemoteBlobStore, type RemoteBlobStoreOptions } from './remote-blob-store.ts'
export {
  type BlobStoreServer,
  type ServeBlobStoreOptions,
  type ServedStore,
  serveBlobStore,
} from './serve-blob-store.ts'
