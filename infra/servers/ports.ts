/**
 * Ports for servers with configured ports. They are below the range for outgoing connections. In
 * that range any connection of the machine could take a port before its server starts, or while it
 * restarts.
 */
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'

const lowest = 10_240
/** Where Linux begins with outgoing connections, if it does not say. */
const usualFirstOutgoing = 32_768
const blockSize = 128
/** Right below outgoing connections: a process chooses among these itself (`chosenPorts`). */
const chosenByProcesses = 2_048

/** Ports of this process's blocks that it has not given out yet. */
const rest: number[] = []

/**
 * Free ports that this process has not given out before. They come from a block that belongs to it
 * while it runs. So no other program takes them before their server starts, or listens on them
 * during its own search.
 * @throws Error when fewer are free
 */
export async function freePorts(count: number, host = '127.0.0.1'): Promise<number[]> {
  const held: Server[] = []
  while (held.length < count) {
    const port = rest.shift()
    if (port === undefined) {
      if (!(await takeBlock())) break
      continue
    }
    const server = await listening({ host, port }).catch(() => undefined)
    if (server !== undefined) held.push(server)
  }
  const ports = held.map((server) => (server.address() as { port: number }).port)
  await Promise.all(held.map(whenClosed))
  if (ports.length < count)
    throw new Error(`${count} free ports from ${lowest} to ${aboveHighest() - 1} were not found`)
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

export function whenClosed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()))
}

/**
 * Adds a block of ports to `rest`. The process that listens on the first port of a block owns the
 * block, until it ends. The search starts at a random block, so that programs rarely try the same
 * one.
 */
async function takeBlock(): Promise<boolean> {
  const blocks = Math.floor((aboveHighest() - lowest) / blockSize)
  const start = Math.floor(Math.random() * blocks)
  for (let step = 0; step < blocks; step++) {
    const first = lowest + ((start + step) % blocks) * blockSize
    const owner = await listening({ host: '127.0.0.1', port: first }).catch(() => undefined)
    if (owner === undefined) continue
    owner.on('connection', (socket) => socket.destroy()).unref()
    rest.push(...Array.from({ length: blockSize - 1 }, (_, at) => first + 1 + at))
    return true
  }
  return false
}

function aboveHighest(): number {
  return firstOutgoing() - chosenByProcesses
}

function firstOutgoing(): number {
  try {
    const first = Number.parseInt(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8'), 10)
    return first > lowest + 2 * chosenByProcesses ? first : usualFirstOutgoing
  } catch {
    return usualFirstOutgoing
  }
}
