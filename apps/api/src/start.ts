/**
 * An API frontend of a cluster: the JSON interface, the pages, and the operator's calls. It stores
 * nothing.
 */
import { ShareCodeRoutes } from '@holdfast/accounts'
import type { BlobStore } from '@holdfast/blob-store'
import { chosenPorts, listen, urlOf } from '@holdfast/bootstrap'
import {
  adminScheme,
  type ClusterPart,
  type ClusterStart,
  clusterBlobs,
  frontendScheme,
  joinCluster,
  startAdmin,
} from '@holdfast/cluster'
import { downloadSettings, webDownloads } from '@holdfast/downloads'
import { drainOnClose, ItemPresenter } from '@holdfast/http-kit'
import { tokenKeyId } from '@holdfast/kernel'
import { webPages } from '@holdfast/web'
import type { FastifyInstance } from 'fastify'
import { createApi } from './create-api.ts'

/** Accepts requests when it resolves. @throws StartFault */
export async function startApi({ config, secrets, settings, log, clock, connect }: ClusterStart) {
  await using opened = new AsyncDisposableStack()
  const { host, adminHost } = config.listen
  const ports = await chosenPorts({ api: config.listen.api, admin: config.listen.admin }, host)
  const scheme = frontendScheme(config)
  const own = config.publicUrls.api ?? urlOf(host, ports.api, scheme)
  const urls = {
    api: own,
    upload: config.publicUrls.upload ?? urlOf(host, config.listen.upload, scheme),
    download: config.publicUrls.download ?? urlOf(host, config.listen.download, scheme),
    web: config.publicUrls.web ?? own,
  }
  const addresses = { api: own, admin: urlOf(adminHost, ports.admin, adminScheme(config)) }
  const cluster = await joinCluster({
    config,
    secrets,
    role: 'api',
    moreRoles: [],
    addresses,
    log,
    clock,
    connect,
    report: (byPhase) => byPhase,
    onGroup: undefined,
  })
  opened.defer(() => cluster.close())
  const admin = await startAdmin(cluster, {
    role: 'api',
    port: ports.admin,
    settings,
    accounts: true,
    status: undefined,
  })
  opened.defer(() => admin.close())
  const blobs = clusterBlobs(cluster)
  opened.defer(() => blobs.close())
  const api = createApiHost(cluster, urls, blobs)
  opened.defer(() => api.close())
  await listen(api, { name: 'api', host, port: ports.api })
  cluster.setPhase('ready')

  const running = opened.move()
  return {
    addresses,
    async close() {
      cluster.setPhase('draining')
      await running.disposeAsync()
    },
  }
}

function createApiHost(
  cluster: ClusterPart,
  urls: { api: string; upload: string; download: string; web: string },
  blobs: BlobStore,
): FastifyInstance {
  const { config, keyring, serversOf } = cluster
  const api = createApi({
    ...cluster,
    passwordWork: undefined,
    settings: { ...config, urls, tokenKeyId, founders: cluster.regions.order.founders },
  })
  const presenter = new ItemPresenter({
    downloadUrl: urls.download,
    serversOf,
    directUrlOf: cluster.directUrlOf,
    capabilityKey: keyring.derive('capability'),
  })
  const codes = new ShareCodeRoutes(cluster)
  const { answers } = cluster.budgets
  api.register(webPages({ ...cluster, answers, urls, ids: keyring.ids, presenter, codes, rules: config }))
  const versions = undefined
  api.register(
    webDownloads({ ...cluster, versions, blobs, settings: downloadSettings(config, { webUrl: urls.web }) }),
  )
  drainOnClose(api, { drainMs: config.drainMs })
  return api
}
