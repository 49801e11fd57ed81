export { type DrainOptions, type DrainResult, leaveGroup } from './draining.ts'
export type { Holder } from './failover-read.ts'
export { type GroupProgress, groupProgress } from './group-progress.ts'
export { Holders, type HoldersOptions, type NodeReport } from './holders.ts'
export { LocalNode, type LocalNodeOptions } from './local-node.ts'
export { NodeGroups, type NodeGroupsOptions } from './node-groups.ts'
export type { Peers } from './peers.ts'
export {
  absenceQuorumOf,
  GroupMap,
  type GroupNode,
  type GroupView,
  nodesOf,
  type PlacementGroup,
  planGroups,
  writeQuorum,
} from './placement-groups.ts'
export type { PullerOptions, PullRound } from './puller.ts'
export { type ReadThroughOptions, ReadThroughStore } from './read-through.ts'
export { RejoinCheck, type RejoinCheckOptions } from './rejoin-check.ts'
export { repairSources } from './repair-sources.ts'
export { ReplicatedBlobStore, type ReplicatedBlobStoreOptions } from './replicated-blob-store.ts'
export { Replicator, type ReplicatorOptions, type ReplicatorTuning, type SourceLag } from './replicator.ts'
export type { Watermark } from './watermarks.ts'
