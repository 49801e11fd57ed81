export { serveAccountLists } from './accounts/account-lists.ts'
export { startReconciling, wantRound } from './accounts/reconciling.ts'
export type { ClusterPart } from './cluster-part.ts'
export { type ClusterStart, runClusterProcess } from './cluster-start.ts'
export {
  clusterBlobs,
  clusterDescriptors,
  joinCluster,
} from './join-cluster.ts'
export { type ClusterAdminOptions, startAdmin } from './operator/admin.ts'
export { type GroupStatus, serveGroupStatus } from './operator/cluster-status.ts'
export { type AddingConfig, addRegions, type JoiningRegion, joinRegion } from './regions/adding-regions.ts'
export { serveTakeover, type TakenOver } from './regions/evacuation.ts'
export { type ClusterServers, connectServers, type ServerConnector } from './servers/connect-servers.ts'
export { openMetadata } from './servers/metadata.ts'
export { adminScheme, type ClusterTrust, frontendScheme, openTrust } from './servers/trust.ts'
export { serveCollecting } from './storage/collecting.ts'
export { GroupLeader, type GroupLeaderOptions, GroupRows } from './storage/group-rows.ts'
export { serveHolding } from './storage/holding.ts'
export { type NodeAdminState, NodeAdminStates } from './storage/node-admin-states.ts'
export { StoragePeers } from './storage/storage-peers.ts'
