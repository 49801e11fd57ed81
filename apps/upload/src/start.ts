/**
 * An upload frontend of a cluster. It also serves its region's public downloads: links point here,
 * and the bytes come from the nearest node that has them. When that node dies, another continues at
 * the same byte. It stores nothing unless it is also configured as a storage node: then the first
 * copy of its uploads is on its own disk.
 */
import type { BlobStore } from '@holdfast/blob-store'
import { chosenPorts, listen, urlOf, webUrlOf } from '@holdfast/bootstrap'
import {
  type ClusterStart,
  clusterBlobs,
  clusterDescriptors,
  joinCluster,
  startAdmin,
  tokenKeyId,
} from '@holdfast/cluster'
import { createDownloads } from '@holdfast/downloads'
import type { RegionCode } from '@holdfast/kernel'
import { StorageRole } from '@holdfast/storage-role'
import { createUpload } from './app.ts'
import { ClientCountries } from './regions/client-countries.ts'
import { openScans } from './scanning/open-scans.ts'
import { uploadSettings } from './settings.ts'
import { UploadRouting } from './upload-routing.ts'

/** How often it checks for storage nodes that accept uploads, ms. */
const awaitMs = 100

/** Listens when it resolves; ready when storage nodes accept uploads. @throws StartFault */
export async function startUpload({ config, secrets, settings, log, connect }: ClusterStart) {
  await using opened = new AsyncDisposableStack()
  const { host, adminHost, upload, download, admin: adminPort } = config.listen
  const { trustProxy, region, drainMs } = config
  const ports = await chosenPorts({ upload, download, admin: adminPort }, host)
  const downloadUrl = config.publicUrls.download ?? urlOf(host, ports.download)
  const webUrl = webUrlOf(config)
  const addresses = {
    upload: config.publicUrls.upload ?? urlOf(host, ports.upload),
    download: downloadUrl,
    admin: urlOf(adminHost, ports.admin),
  }
  const storage = config.uploadStores
    ? await StorageRole.open({
        config,
        secrets,
        log,
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
    connect,
    ...(storage === undefined
      ? { addresses }
      : {
          addresses: { ...addresses, ...storage.addresses },
          moreRoles: ['storage-node'],
          // As a storage node it is ready before there are groups for its uploads: groups consist
          // of ready nodes.
          report: () => ({ ...storage.status, ready: storage.unhealthyReason === undefined && !draining }),
          onGroup: (group) => storage.learn(group),
        }),
  })
  opened.defer(() => cluster.close())
  opened.defer(() => storage?.stop())
  await storage?.join(cluster)
  const { map: groups } = cluster.groups
  const stores = new Map(config.regions.map((code) => [code, clusterBlobs(cluster, { region: code })]))
  opened.defer(async () => {
    await Promise.all([...stores.values()].map((store) => store.close()))
  })
  const blobsOf = (code: RegionCode) => stores.get(code) as BlobStore
  const blobs = blobsOf(region)
  const takesUploads = (code: RegionCode) =>
    groups
      .all()
      .some(
        (group) =>
          group.region === code &&
          group.writable &&
          group.members.some((node) => cluster.peers.isAlive(node)),
      )
  const routing = new UploadRouting({
    own: region,
    regions: config.regions,
    countries: await ClientCountries.open(),
    isHealthy: takesUploads,
    blobsOf,
  })
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

  const hosts = {
    upload: createUpload({
      ...cluster,
      blobs,
      scans,
      budgets: undefined,
      placeOf: routing.placeOf,
      settings: uploadSettings(
        { ...config, tokenKeyId },
        { urls: { download: downloadUrl, web: webUrl }, regions: config.regions },
      ),
    }),
    download: createDownloads({
      ...cluster,
      versions: undefined,
      budgets: undefined,
      blobs,
      webUrl,
      trustProxy,
      drainMs,
    }),
  }
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
