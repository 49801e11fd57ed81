export {
  type BlobStoreCheck,
  type BlobStoreContract,
  blobStoreChecks,
  blobStoreContract,
  get,
  put,
} from './contract-suite.ts'
export { md5Collision } from './md5-collision.ts'
export {
  type NodeStoreCheck,
  type NodeStoreContract,
  nodeStoreChecks,
  nodeStoreContract,
} from './node-store-suite.ts'
export { plainCollector, plainScrubber } from './plain-upkeep.ts'
