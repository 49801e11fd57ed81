export { serveAccountLists } from './account-lists.ts'
export { type ClusterAdminOptions, startAdmin } from './admin.ts'
export type { ClusterPart } from './cluster-part.ts'
export { type ClusterStart, runClusterProcess } from './cluster-start.ts'
export { type GroupStatus, serveGroupStatus } from './cluster-status.ts'
export { serveCollecting } from './collecting.ts'
export { type ClusterServers, type Connect, connectServers } from './connect-servers.ts'
export { serveTakeover, type TakenOver } from './evacuation.ts'
export { GroupLeader, type GroupLeaderOptions, GroupRows } from './group-rows.ts'
export {
  clusterBlobs,
  clusterDescriptors,
  joinCluster,
  tokenKeyId,
} from './join-cluster.ts'
export { openMetadata } from './metadata.ts'
export { type NodeAdminState, NodeAdminStates } from './node-admin-states.ts'
export { startReconciling, wantRound } from './reconciling.ts'
export { StoragePeers } from './storage-peers.ts'
export { type ClusterTrust, openTrust } from './trust.ts'
