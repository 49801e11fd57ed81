/** Where a host listens, and what links to it say. */
import type { FastifyInstance } from 'fastify'
import { StartFault } from './start-fault.ts'

const portSettings = {
  api: 'HOLDFAST_API_PORT',
  upload: 'HOLDFAST_UPLOAD_PORT',
  download: 'HOLDFAST_DOWNLOAD_PORT',
  admin: 'HOLDFAST_ADMIN_PORT',
}

interface Listener {
  name: keyof typeof portSettings
  host: string
  port: number
}

/** @throws StartFault PORT_TAKEN when the address cannot be had */
export async function listen(app: FastifyInstance, listener: Listener): Promise<void> {
  try {
    await app.listen({ host: listener.host, port: listener.port })
  } catch (error) {
    throw addressFault(error, listener) ?? error
  }
}

/** In an operator's words why the address cannot be had. @returns undefined where the error is another one */
export function addressFault(error: unknown, { name, host, port }: Listener): StartFault | undefined {
  const reasons: Record<string, string> = {
    EADDRINUSE: 'is taken by another program',
    EACCES: 'needs rights that this user has not',
    EADDRNOTAVAIL: 'is no address of this machine (HOLDFAST_BIND)',
  }
  const reason = reasons[(error as { code?: string }).code ?? '']
  if (reason === undefined) return undefined
  return new StartFault(
    'PORT_TAKEN',
    `${host}:${port} for the ${name} host ${reason}; ${portSettings[name]} sets another port`,
    { cause: error },
  )
}

/** Listening on every address is no address: this machine's own is named instead. */
export function urlOf(host: string, port: number): string {
  const reachable = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`
}

/** Where links to the pages lead, for a process that does not serve them itself. */
export function webUrlOf({
  publicUrls,
  listen: { host, api },
}: {
  publicUrls: { web?: string | undefined; api?: string | undefined }
  listen: { host: string; api: number }
}): string {
  return publicUrls.web ?? publicUrls.api ?? urlOf(host, api)
}
