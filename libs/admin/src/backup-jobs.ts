/**
 * The operator's calls that read or write much: they begin a run, and ask how far it is.
 */
import { RefusalError } from '@holdfast/http-kit'
import type { FastifyInstance } from 'fastify'
import { objectOf } from './accounts/account-change.ts'

/** Runs as plain JSON, with `id`, `running`, `progress`, and `outcome` or `failure` at the end. */
export interface BackupJobOperations {
  /** @param options.bytesPerSecond undefined: no bound. @returns undefined: another run is on. */
  backUp: (options: BackupRequest) => object | undefined
  verify: () => object | undefined
  /** Why a directory cannot be imported now. @returns undefined: it can. */
  faultOfTarget: (directory: string) => Promise<string | undefined>
  importDirectory: (options: ImportRequest) => object | undefined
  exportAccount: (options: ExportRequest) => object | undefined
  /** The current run, or the last one. */
  readonly run: object | undefined
}

export interface BackupRequest {
  /** A directory on the machine of the service. */
  target: string
  bytesPerSecond: number | undefined
  keyFile: string | undefined
  /** Which earlier backups stay; undefined: all. */
  prune: { keep: number; withinDays: number } | undefined
}

/** Into the cluster of the called process. */
export interface RestoreRequest {
  /** A directory on its machine. */
  from: string
  /** Undefined: the newest snapshot. */
  at: string | undefined
  keyFile: string | undefined
  withoutDamaged: boolean
}

/** The calls of a cluster. Its runs are those of `BackupJobOperations`. */
export interface ClusterBackupOperations extends Pick<BackupJobOperations, 'backUp' | 'run'> {
  restore: (options: RestoreRequest) => object | undefined
}

export interface ImportRequest {
  /** On the machine of the service. */
  directory: string
  /** By id or e-mail address. */
  account: string
  /** Id of the folder that gets the content; undefined: a new one with the directory's name. */
  folder: string | undefined
}

export interface ExportRequest {
  account: string
  target: string
}

function begun(run: object | undefined): object {
  if (run === undefined) throw new RefusalError('error-running')
  return { status: 'ok', data: run }
}

export function backupRoutes(host: FastifyInstance, runs: Pick<BackupJobOperations, 'backUp' | 'run'>): void {
  host.post<{ Body: unknown }>('/admin/backup', async (request) =>
    begun(runs.backUp(requestOf(request.body))),
  )
  host.get('/admin/run', async () => ({ status: 'ok', data: runs.run ?? {} }))
}

export function restoreRoutes(host: FastifyInstance, runs: ClusterBackupOperations): void {
  host.post<{ Body: unknown }>('/admin/restore', async (request) =>
    begun(runs.restore(restoreOf(request.body))),
  )
}

export function backupJobRoutes(host: FastifyInstance, runs: BackupJobOperations): void {
  host.post('/admin/verify', async () => begun(runs.verify()))
  host.post<{ Body: unknown }>('/admin/import', async (request) =>
    begun(runs.importDirectory(importOf(request.body))),
  )
  host.post<{ Body: unknown }>('/admin/import/check', async (request) => {
    const { directory } = objectOf(request.body, 'body')
    return { status: 'ok', data: { fault: await runs.faultOfTarget(pathOf(directory, 'error-directory')) } }
  })
  host.post<{ Body: unknown }>('/admin/export', async (request) =>
    begun(runs.exportAccount(exportOf(request.body))),
  )
}

function requestOf(body: unknown): BackupRequest {
  const { target, bytesPerSecond, keyFile, keep, withinDays } = objectOf(body, 'body')
  if (bytesPerSecond !== undefined && !(typeof bytesPerSecond === 'number' && bytesPerSecond >= 1))
    throw new RefusalError('error-bytesPerSecond')
  const prune =
    keep === undefined && withinDays === undefined
      ? undefined
      : { keep: countOf(keep, 'error-keep'), withinDays: countOf(withinDays, 'error-withinDays') }
  return {
    target: pathOf(target, 'error-target'),
    bytesPerSecond,
    keyFile: keyFile === undefined ? undefined : pathOf(keyFile, 'error-keyFile'),
    prune,
  }
}

function restoreOf(body: unknown): RestoreRequest {
  const { from, at, keyFile, withoutDamaged = false } = objectOf(body, 'body')
  if (at !== undefined && typeof at !== 'string') throw new RefusalError('error-at')
  if (typeof withoutDamaged !== 'boolean') throw new RefusalError('error-withoutDamaged')
  return {
    from: pathOf(from, 'error-from'),
    at,
    keyFile: keyFile === undefined ? undefined : pathOf(keyFile, 'error-keyFile'),
    withoutDamaged,
  }
}

function countOf(value: unknown, status: string): number {
  if (value === undefined) return 0
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw new RefusalError(status)
  return value as number
}

function importOf(body: unknown): ImportRequest {
  const { directory, account, folder } = objectOf(body, 'body')
  if (folder !== undefined && typeof folder !== 'string') throw new RefusalError('error-folder')
  return { directory: pathOf(directory, 'error-directory'), account: nameOfAccount(account), folder }
}

function exportOf(body: unknown): ExportRequest {
  const { account, target } = objectOf(body, 'body')
  return { account: nameOfAccount(account), target: pathOf(target, 'error-target') }
}

/** On the machine of the service. */
function pathOf(path: unknown, status: string): string {
  if (typeof path !== 'string' || !path.startsWith('/')) throw new RefusalError(status)
  return path
}

function nameOfAccount(account: unknown): string {
  if (typeof account !== 'string' || account === '') throw new RefusalError('error-account')
  return account
}
