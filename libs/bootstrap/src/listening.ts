/** Where a host listens, and the origin that links use. */

import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { StartFault } from './start-fault.ts'

const portSettings = {
  api: 'HOLDFAST_API_PORT',
  upload: 'HOLDFAST_UPLOAD_PORT',
  download: 'HOLDFAST_DOWNLOAD_PORT',
  admin: 'HOLDFAST_ADMIN_PORT',
}

/**
 * Connections that the system keeps for a host until the loop accepts them; the system's own
 * maximum counts where it is lower. Node's 511 overflow when a crowd comes while the loop is busy
 * for 100 ms, and a client dropped by an overflow retries after a whole second.
 */
const backlog = 4_096

interface Listener {
  name: keyof typeof portSettings
  host: string
  port: number
}

/** @throws StartFault PORT_TAKEN when the address is not available */
export async function listen(app: FastifyInstance, listener: Listener): Promise<void> {
  const [first = listener.host, ...others] = await addressesOf(listener.host)
  const beside = others.map((host) => ({ host, server: serverBeside(app) }))
  if (beside.length > 0)
    app.addHook('preClose', async () => {
      for (const { server } of beside) server.close()
    })
  try {
    await app.listen({ host: first, port: listener.port, backlog })
    const { port } = app.server.address() as { port: number }
    // An unavailable address is left out: the first one is bound.
    for (const { host, server } of beside) await bound(server, { host, port }).catch(() => server.close())
  } catch (error) {
    throw addressFault(error, listener) ?? error
  }
}

/** `localhost` is two addresses on most machines. */
async function addressesOf(host: string): Promise<string[]> {
  if (host !== 'localhost') return [host]
  const found = await lookup(host, { all: true })
  return [...new Set(found.map(({ address }) => address))]
}

/**
 * A listener for a further address of the host. It passes its connections to the host's own server,
 * which bounds and counts all connections.
 */
function serverBeside(app: FastifyInstance): Server {
  return createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
    app.server.emit('connection', socket),
  )
}

async function bound(server: Server, address: { host: string; port: number }): Promise<void> {
  server.listen({ ...address, backlog })
  await once(server, 'listening')
}

/**
 * Why the address is not available, for operators.
 * @returns undefined for other errors
 */
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

/** Links cannot contain a wildcard address. They get the loopback address of this machine. */
export function urlOf(host: string, port: number, scheme: 'http' | 'https' = 'http'): string {
  const reachable = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host
  return `${scheme}://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`
}

/** The origin of the pages, for a process that does not serve them itself. */
export function webUrlOf({
  publicUrls,
  listen: { host, api },
}: {
  publicUrls: { web?: string | undefined; api?: string | undefined }
  listen: { host: string; api: number }
}): string {
  return publicUrls.web ?? publicUrls.api ?? urlOf(host, api)
}
