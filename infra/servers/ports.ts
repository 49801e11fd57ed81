/**
 * Ports for servers with configured ports. They are below those that the system gives to outgoing
 * connections: any connection of the machine could take such a port before its server starts, or
 * while it restarts.
 */
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'

const lowest = 10_240
/** Where Linux begins with outgoing connections, if it does not say. */
const usualFirstOutgoing = 32_768

/**
 * Free ports, all different. The search starts at a random port, so that two concurrent programs
 * find different ones.
 * @throws Error when fewer are free
 */
export async function freePorts(count: number, host = '127.0.0.1'): Promise<number[]> {
  const above = firstOutgoing()
  const span = above - lowest
  const start = Math.floor(Math.random() * span)
  const held: Server[] = []
  for (let step = 0; step < span && held.length < count; step++) {
    const server = await listening({ host, port: lowest + ((start + step) % span) }).catch(() => undefined)
    if (server !== undefined) held.push(server)
  }
  const ports = held.map((server) => (server.address() as { port: number }).port)
  await Promise.all(held.map(closed))
  if (ports.length < count)
    throw new Error(`${count} free ports from ${lowest} to ${above - 1} were not found`)
  return ports
}

export async function freePort(host?: string): Promise<number> {
  const [port = 0] = await freePorts(1, host)
  return port
}

/** A server that holds the address. @throws Error EADDRINUSE, EADDRNOTAVAIL */
export function listening(address: { host: string; port: number }): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(address, () => resolve(server))
  })
}

export function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()))
}

function firstOutgoing(): number {
  try {
    const first = Number.parseInt(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8'), 10)
    return first > lowest + 1_000 ? first : usualFirstOutgoing
  } catch {
    return usualFirstOutgoing
  }
}
