/** The operator's calls on the process: its content, its collector, its settings. */
import { isRange } from '@holdfast/access'
import { type Ban, RefusalError } from '@holdfast/http-kit'
import type { FastifyInstance } from 'fastify'
import { objectOf } from './accounts/account-change.ts'
import {
  type BackupJobOperations,
  backupJobRoutes,
  backupRoutes,
  type ClusterBackupOperations,
  restoreRoutes,
} from './backup-jobs.ts'

export interface OperationDeps {
  /** Values for people and programs: plain JSON. */
  status: () => Promise<Record<string, unknown>>
  /** Runs the collector of unreferenced bytes once. @param graceMs undefined: as configured */
  collect: (options: { graceMs?: number }) => Promise<Record<string, unknown>>
  /**
   * Compares references with all accounts, and repairs differences unless `dryRun`. Resolves
   * with the result.
   */
  reconcile: (options: { dryRun: boolean }) => Promise<object>
  /** Every setting as text, secrets masked. */
  settings: () => unknown[]
  bans: () => readonly Ban[]
  /** @param network as listed, or an address in it. @returns false when it was not banned. */
  liftBan: (network: string) => boolean
  /** The operator says that the wall clock is right. Undefined in a cluster. */
  acceptClock: (() => Promise<object>) | undefined
  /** Undefined in a cluster, which has its own. */
  backupJobs: BackupJobOperations | undefined
  /** Undefined where there is no cluster. */
  cluster: ClusterOperations | undefined
}

/** Each resolves with values for people and programs, as plain JSON. */
export interface ClusterOperations {
  /** Takes a region over. @param fenced the operator's assurance that it is off or isolated. */
  evacuate: (region: string, options: { fenced: boolean }) => Promise<object>
  /**
   * Moves a region's accounts back home. @param fenced the operator's assurance that the region
   * that serves them now is off or isolated.
   */
  returnHome: (region: string, options: { fenced: boolean }) => Promise<object>
  drainNode: (node: string) => Promise<object>
  removeNode: (node: string) => Promise<object>
  returnNode: (node: string) => Promise<object>
  backups: ClusterBackupOperations
}

/** A day more than the longest grace that can be set. */
const graceSecondsMax = 31 * 86_400

export function operationRoutes(host: FastifyInstance, deps: OperationDeps): void {
  host.get('/admin/status', async () => ({ status: 'ok', data: await deps.status() }))

  host.get('/admin/settings', async () => ({ status: 'ok', data: { settings: deps.settings() } }))

  host.get('/admin/bans', async () => ({ status: 'ok', data: { bans: deps.bans() } }))

  host.delete<{ Params: { network: string } }>('/admin/bans/:network', async (request) => {
    const { network } = request.params
    if (!isRange(network)) throw new RefusalError('error-network')
    return { status: 'ok', data: { lifted: deps.liftBan(network) } }
  })

  host.post<{ Body: unknown }>('/admin/collect', async (request) => {
    const { graceSeconds } = objectOf(request.body, 'body')
    const options =
      graceSeconds === undefined || graceSeconds === null ? {} : { graceMs: graceMsOf(graceSeconds) }
    return { status: 'ok', data: await deps.collect(options) }
  })

  host.post<{ Body: unknown }>('/admin/reconcile', async (request) => {
    const { dryRun = false } = objectOf(request.body, 'body')
    if (typeof dryRun !== 'boolean') throw new RefusalError('error-dryRun')
    return { status: 'ok', data: await deps.reconcile({ dryRun }) }
  })

  const { acceptClock } = deps
  if (acceptClock !== undefined)
    host.post('/admin/clock/accept', async () => ({ status: 'ok', data: await acceptClock() }))
  const backups = deps.backupJobs ?? deps.cluster?.backups
  if (backups !== undefined) backupRoutes(host, backups)
  if (deps.backupJobs !== undefined) backupJobRoutes(host, deps.backupJobs)
  if (deps.cluster !== undefined) clusterRoutes(host, deps.cluster)
}

function clusterRoutes(host: FastifyInstance, cluster: ClusterOperations): void {
  const onRegion = (path: string, act: (region: string, options: { fenced: boolean }) => Promise<object>) =>
    host.post<{ Params: { region: string }; Body: unknown }>(
      `/admin/regions/:region/${path}`,
      async (request) => {
        const { fenced = false } = objectOf(request.body, 'body')
        if (typeof fenced !== 'boolean') throw new RefusalError('error-fenced')
        return { status: 'ok', data: await act(request.params.region, { fenced }) }
      },
    )
  onRegion('evacuate', cluster.evacuate)
  onRegion('return', cluster.returnHome)
  const onNode = (path: string, act: (node: string) => Promise<object>) =>
    host.post<{ Params: { node: string } }>(`/admin/nodes/:node/${path}`, async (request) => {
      return { status: 'ok', data: await act(request.params.node) }
    })
  onNode('drain', cluster.drainNode)
  onNode('remove', cluster.removeNode)
  onNode('return', cluster.returnNode)
  restoreRoutes(host, cluster.backups)
}

function graceMsOf(value: unknown): number {
  const seconds = typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : value
  if (typeof seconds !== 'number' || !(seconds >= 0 && seconds <= graceSecondsMax))
    throw new RefusalError('error-graceSeconds')
  return seconds * 1000
}
