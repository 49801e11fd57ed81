/**
 * An upload frontend of a cluster. It also serves its region's public downloads: links point here,
 * and the bytes come from the nearest node that has them. When that node dies, another continues at
 * the same byte. It stores nothing unless it is also configured as a storage node: then the first
 * copy of its uploads is on its own disk.
 */
import type { BlobStore } from '@holdfast/blob-store'
import { chosenPorts, listen, urlOf, webUrlOf } from '@holdfast/bootstrap'
import {
  adminScheme,
  type ClusterPart,
  type ClusterStart,
  clusterBlobs,
  clusterDescriptors,
  frontendScheme,
  joinCluster,
  startAdmin,
} from '@holdfast/cluster'
import { createDownloads, downloadSettings } from '@holdfast/downloads'
import { type RegionCode, tokenKeyId } from '@holdfast/kernel'
import { StorageRole } from '@holdfast/storage-role'
import { createUpload } from './app.ts'
import { ClientCountries } from './regions/client-countries.ts'
import type { ContentScans } from './scanning/content-scans.ts'
import { openScans } from './scanning/open-scans.ts'
import { uploadSettings } from './settings.ts'
import { UploadRouting } from './upload-routing.ts'

/** How often it checks for storage nodes that accept uploads, ms. */
const awaitMs = 100

/** Listens when it resolves; ready when storage nodes accept uploads. @throws StartFault */
export async function startUpload({ config, secrets, settings, log, clock, connect }: ClusterStart) {
  await using opened = new AsyncDisposableStack()
  const { host, adminHost, upload, download, admin: adminPort } = config.listen
  const ports = await chosenPorts({ upload, download, admin: adminPort }, host)
  const addresses = {
    upload: config.publicUrls.upload ?? urlOf(host, ports.upload, frontendScheme(config)),
    download: config.publicUrls.download ?? urlOf(host, ports.download, frontendScheme(config)),
    admin: urlOf(adminHost, ports.admin, adminScheme(config)),
  }
  const storage = config.uploadStores
    ? await StorageRole.open({
        config,
        secrets,
        log,
        clock,
        descriptors: clusterDescriptors(config, 'upload'),
      })
    : undefined
  opened.defer(() => storage?.close())
  let draining = false
  const cluster = await joinCluster({
    config,
    secrets,
    role: 'upload',
    log,
    clock,
    connect,
    ...(storage === undefined
      ? { addresses, moreRoles: [], report: (byPhase) => byPhase, onGroup: undefined }
      : {
          addresses: { ...addresses, ...storage.addresses },
          moreRoles: ['storage-node'],
          // As a storage node it is ready before there are groups for its uploads: groups consist
          // of ready nodes.
          report: (byPhase) => ({
            ...byPhase,
            ...storage.status,
            ready: storage.unhealthyReason === undefined && !draining,
          }),
          onGroup: (group) => storage.learn(group),
        }),
  })
  opened.defer(() => cluster.close())
  opened.defer(() => storage?.stop())
  await storage?.join(cluster)
  const { routing, blobs, takesUploads } = opened.use(await openRouting(cluster))
  const scans = openScans({ ...cluster, config: config.scanning, lists: cluster.blocked })
  opened.defer(() => scans.close())
  const admin = await startAdmin(cluster, {
    role: 'upload',
    port: ports.admin,
    settings,
    accounts: false,
    status: async () => ({ ...(await storage?.details()), scanning: scans.figures }),
  })
  opened.defer(() => admin.close())

  const hosts = createHosts(cluster, { routing, blobs, scans, downloadUrl: addresses.download })
  opened.defer(async () => {
    await Promise.all(Object.values(hosts).map((app) => app.close()))
  })
  for (const name of ['upload', 'download'] as const)
    await listen(hosts[name], { name, host, port: ports[name] })
  await storage?.start()
  cluster.transfers.start()
  // Groups are planned once storage nodes are there, seconds after the first start.
  const awaiting = setInterval(() => {
    if (!config.regions.some(takesUploads)) return
    clearInterval(awaiting)
    cluster.setPhase('ready')
  }, awaitMs)
  opened.defer(() => clearInterval(awaiting))

  const running = opened.move()
  return {
    addresses,
    async close() {
      clearInterval(awaiting)
      draining = true
      cluster.setPhase('draining')
      await running.disposeAsync()
    },
  }
}

/** The stores of all regions, and which of them takes an upload. */
async function openRouting(cluster: ClusterPart) {
  const { config, peers } = cluster
  const countries = await ClientCountries.open()
  const stores = new Map(config.regions.map((code) => [code, clusterBlobs(cluster, { region: code })]))
  const blobsOf = (code: RegionCode) => stores.get(code) as BlobStore
  const takesUploads = (code: RegionCode) =>
    cluster.groups.map
      .all()
      .some(
        (group) =>
          group.region === code && group.writable && group.members.some((node) => peers.isAlive(node)),
      )
  const routing = new UploadRouting({
    own: config.region,
    regions: config.regions,
    countries,
    isHealthy: takesUploads,
    blobsOf,
  })
  return {
    routing,
    blobs: blobsOf(config.region),
    takesUploads,
    async [Symbol.asyncDispose]() {
      await Promise.all([...stores.values()].map((store) => store.close()))
    },
  }
}

function createHosts(
  cluster: ClusterPart,
  {
    routing,
    blobs,
    scans,
    downloadUrl,
  }: { routing: UploadRouting; blobs: BlobStore; scans: ContentScans; downloadUrl: string },
) {
  const { config } = cluster
  const webUrl = webUrlOf(config)
  return {
    upload: createUpload({
      ...cluster,
      blobs,
      scans,
      placeOf: routing.placeOf,
      settings: uploadSettings(
        { ...config, tokenKeyId },
        { urls: { download: downloadUrl, web: webUrl }, founders: cluster.regions.order.founders },
      ),
    }),
    download: createDownloads({
      ...cluster,
      versions: undefined,
      readsHere: false,
      blobs,
      settings: downloadSettings(config, { webUrl }),
    }),
  }
}
