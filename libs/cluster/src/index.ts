export { serveAccountLists } from './account-lists.ts'
export { AccountRounds, accountsOf, roundsKey, scopeOf } from './account-rounds.ts'
export { AccountRoutes } from './account-routes.ts'
export { type ClusterAdminOptions, startAdmin } from './admin.ts'
export type { ClusterPart } from './cluster-part.ts'
export { type ClusterStart, runClusterProcess } from './cluster-start.ts'
export {
  backupStatus,
  clocksStatus,
  clusterStatus,
  type GroupStatus,
  serveGroupStatus,
} from './cluster-status.ts'
export { CollectFault, collectEverywhere, collectingStatus, serveCollecting } from './collecting.ts'
export { type ClusterServers, type Connect, connectServers } from './connect-servers.ts'
export { evacuate, portionOf, serveTakeover, type TakenOver, takenOver } from './evacuation.ts'
export { GroupLeader, type GroupLeaderOptions, GroupRows } from './group-rows.ts'
export {
  clusterBlobs,
  clusterDescriptors,
  joinCluster,
  tokenKeyId,
} from './join-cluster.ts'
export { backupOf, homeRegions, keyspaceOf, openMetadata } from './metadata.ts'
export { type NodeAdminState, NodeAdminStates } from './node-admin-states.ts'
export { ReconcileFault, reconcileEverywhere, startReconciling, wantRound } from './reconciling.ts'
export { RegionMap } from './region-map.ts'
export { RegionalJournals } from './regional-journals.ts'
export { RegionalLookups } from './regional-lookups.ts'
export { SharedBans } from './shared-bans.ts'
export { SharedCounts } from './shared-counts.ts'
export { drainNode, removeNode, returnNode } from './storage-nodes.ts'
export { StoragePeers } from './storage-peers.ts'
export { type ClusterTrust, openTrust } from './trust.ts'
