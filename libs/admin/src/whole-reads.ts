/** The operator's calls that read everything: they begin a run, and ask how far it is. */
import { Refusal } from '@holdfast/http-kit'
import type { FastifyInstance } from 'fastify'
import { objectOf } from './account-change.ts'

/** Runs as plain JSON, with `id`, `running`, `progress`, and `outcome` or `failure` at the end. */
export interface WholeReadOperations {
  /** @param options.bytesPerSecond undefined: no bound. @returns undefined: another run is on. */
  backUp: (options: BackupRequest) => object | undefined
  verify: () => object | undefined
  /** The current run, or the last one. */
  readonly run: object | undefined
}

export interface BackupRequest {
  /** A directory on the machine of the service. */
  target: string
  bytesPerSecond?: number | undefined
  keyFile?: string | undefined
}

export function wholeReadRoutes(host: FastifyInstance, runs: WholeReadOperations): void {
  const begun = (run: object | undefined) => {
    if (run === undefined) throw new Refusal('error-running')
    return { status: 'ok', data: run }
  }
  host.post<{ Body: unknown }>('/admin/backup', async (request) =>
    begun(runs.backUp(requestOf(request.body))),
  )
  host.post('/admin/verify', async () => begun(runs.verify()))
  host.get('/admin/run', async () => ({ status: 'ok', data: runs.run ?? {} }))
}

function requestOf(body: unknown): BackupRequest {
  const { target, bytesPerSecond, keyFile } = objectOf(body, 'body')
  if (typeof target !== 'string' || !target.startsWith('/')) throw new Refusal('error-target')
  if (bytesPerSecond !== undefined && !(typeof bytesPerSecond === 'number' && bytesPerSecond >= 1))
    throw new Refusal('error-bytesPerSecond')
  if (keyFile !== undefined && !(typeof keyFile === 'string' && keyFile.startsWith('/')))
    throw new Refusal('error-keyFile')
  return { target, bytesPerSecond, keyFile }
}
