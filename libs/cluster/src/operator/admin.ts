/** The admin host of a process of a cluster: health, metrics, the operator's calls. */
import { repairAccount } from '@holdfast/actor-runtime'
import { backupMetrics, createAdminHost } from '@holdfast/admin'
import { commit, listen, version } from '@holdfast/bootstrap'
import type { SettingDescription } from '@holdfast/config'
import { drainOnClose } from '@holdfast/http-kit'
import { tokenKeyId } from '@holdfast/kernel'
import type { FastifyInstance } from 'fastify'
import { accountsEverywhere } from '../accounts/account-lists.ts'
import { reconcileEverywhere } from '../accounts/reconciling.ts'
import { ClusterBackups } from '../backup/cluster-backups.ts'
import type { ClusterPart } from '../cluster-part.ts'
import { evacuate, returnHome } from '../regions/evacuation.ts'
import { adminTls } from '../servers/trust.ts'
import { collectEverywhere } from '../storage/collecting.ts'
import { drainNode, removeNode, returnNode } from '../storage/storage-nodes.ts'
import { clusterStatus, ownGroups } from './cluster-status.ts'
import { GroupFigures, groupMetrics } from './group-metrics.ts'

export interface ClusterAdminOptions {
  role: string
  port: number
  settings: readonly SettingDescription[]
  /** Includes the calls on accounts. */
  accounts: boolean
  /** Additional status of this process. Undefined: there is none. */
  status: (() => Promise<Record<string, unknown>>) | undefined
}

/** An operator's call does not wait long. */
const drainMs = 2_000

/** Listening when it resolves. @throws StartFault PORT_TAKEN */
export async function startAdmin(
  cluster: ClusterPart,
  options: ClusterAdminOptions,
): Promise<FastifyInstance> {
  const { config, secrets, rateLimits, readiness, clock, keyring, lookups, accounts, bans } = cluster
  const backups = new ClusterBackups(cluster)
  backupMetrics(cluster.metrics, () => backups.lastBackupMs)
  // Others would only repeat it: each round asks the storage nodes of the region.
  if (options.role === 'api') groupMetrics(cluster.metrics, new GroupFigures(() => ownGroups(cluster)))
  const startedMs = clock.now()
  const status = async () => ({
    version,
    commit,
    role: options.role,
    region: config.region,
    server: config.nodeName,
    startTime: Math.floor(startedMs / 1000),
    uptimeSeconds: Math.floor((clock.now() - startedMs) / 1000),
    ...(await readiness.report()),
    ...(await options.status?.()),
    backup: { run: backups.run ?? null, lastMs: backups.lastBackupMs ?? null },
    cluster: await clusterStatus(cluster),
  })
  const admin = createAdminHost({
    log: cluster.log,
    metrics: cluster.metrics,
    rateLimits,
    readiness,
    get adminToken() {
      return secrets.adminToken
    },
    get metricsToken() {
      return secrets.metricsToken
    },
    uidOf: undefined,
    connections: cluster.adminConnections,
    tls: adminTls(config, cluster.trust),
    operations: {
      status,
      collect: (asked) => collectEverywhere(cluster, asked),
      reconcile: (asked) => reconcileEverywhere(cluster, asked),
      settings: () => [...options.settings],
      bans: () => rateLimits.bans(),
      liftBan: (network) => bans.lift(network),
      acceptClock: undefined,
      backupJobs: undefined,
      cluster: {
        evacuate: (region, options) => evacuate(cluster, region, options),
        returnHome: (region, options) => returnHome(cluster, region, options),
        drainNode: (node) => drainNode(cluster, node),
        removeNode: (node) => removeNode(cluster, node),
        returnNode: (node) => returnNode(cluster, node),
        backups,
      },
    },
    moderation: { lists: cluster.blocked, transfers: cluster.transfers, reports: cluster.reports },
    accounts: options.accounts
      ? {
          accounts,
          lookups,
          ids: keyring.ids,
          clock,
          keyring,
          region: config.region,
          tokenKeyId,
          signUpDomains: config.signUp.domains,
          listAccounts: (after) => accountsEverywhere(cluster, after),
          listReferences: (after) => cluster.listReferences(after),
          questionsPerSecond: config.reconcile.perSecond,
          repair: (question) => repairAccount({ bus: cluster.bus, hostOf: cluster.routes.hostOf }, question),
        }
      : undefined,
  })
  admin.addHook('onClose', () => backups.close())
  drainOnClose(admin, { drainMs })
  await listen(admin, { name: 'admin', host: config.listen.adminHost, port: options.port })
  return admin
}
