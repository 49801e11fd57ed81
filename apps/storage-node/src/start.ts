/**
 * A storage node of a cluster: its own store behind the rules of its placement groups, served to
 * frontends and other nodes, with public downloads in front of it. Missing bytes come from other
 * nodes.
 */

import { chosenPorts, listen, urlOf, webUrlOf } from '@holdfast/bootstrap'
import {
  adminScheme,
  type ClusterStart,
  clusterDescriptors,
  frontendScheme,
  joinCluster,
  startAdmin,
} from '@holdfast/cluster'
import { createDownloads, downloadSettings } from '@holdfast/downloads'
import { StorageRole } from '@holdfast/storage-role'
import { tracedBlobs } from '@holdfast/tracing'

/** Serves when it resolves. @throws StartFault */
export async function startStorageNode({ config, secrets, settings, log, clock, connect }: ClusterStart) {
  await using opened = new AsyncDisposableStack()
  const { host, adminHost, download, admin: adminPort } = config.listen
  const ports = await chosenPorts({ download, admin: adminPort }, host)
  const storage = await StorageRole.open({
    config,
    secrets,
    log,
    clock,
    descriptors: clusterDescriptors(config, 'storage-node'),
  })
  opened.defer(() => storage.close())
  const addresses = {
    download: urlOf(host, ports.download, frontendScheme(config)),
    admin: urlOf(adminHost, ports.admin, adminScheme(config)),
    ...storage.addresses,
  }
  const cluster = await joinCluster({
    config,
    secrets,
    role: 'storage-node',
    moreRoles: [],
    addresses,
    log,
    clock,
    connect,
    report: (byPhase) => ({ ...byPhase, ...storage.status }),
    onGroup: (group) => storage.learn(group),
  })
  opened.defer(() => cluster.close())
  opened.defer(() => storage.stop())
  await storage.join(cluster)

  const admin = await startAdmin(cluster, {
    role: 'storage-node',
    port: ports.admin,
    settings,
    accounts: false,
    status: () => storage.details(),
  })
  opened.defer(() => admin.close())
  const downloads = createDownloads({
    ...cluster,
    versions: undefined,
    readsHere: true,
    blobs: tracedBlobs(storage.node.blobs, cluster.tracer),
    settings: downloadSettings(config, { webUrl: webUrlOf(config) }),
  })
  opened.defer(() => downloads.close())
  await listen(downloads, { name: 'download', host, port: ports.download })

  let draining = false
  await storage.start(() => {
    // Ready means that it can accept uploads; a node that cannot still serves what it has.
    const phase = storage.unhealthyReason === undefined ? 'ready' : 'starting'
    if (!draining && cluster.readiness.phase !== phase) cluster.setPhase(phase)
  })

  const held = opened.move()
  return {
    addresses,
    get endReason() {
      return cluster.readiness.endReason
    },
    async close() {
      draining = true
      cluster.setPhase('draining')
      await held.disposeAsync()
    },
  }
}
