/**
 * Ports before anything listens: links contain them, so they must be known when the hosts are made.
 * The ports are right below the range of outgoing connections. An outgoing connection could take a
 * port of that range between the choice of the port and the start of the host.
 *
 * Seconds may pass between the two, and other processes choose ports in that time. So each process
 * begins at a number of its own, and takes one port after the other.
 */
import { createServer, type Server } from 'node:net'

const lowest = 30_720
const aboveHighest = 32_768
/** Ports between the places of two processes that start one after the other. */
const apart = 64
/** The system chooses any port when this number of them is taken. */
const attempts = 100

let next = process.pid * apart

/** Replaces every 0 by a port that is free now, all different. */
export async function chosenPorts<Names extends string>(
  ports: Record<Names, number>,
  host: string,
): Promise<Record<Names, number>> {
  const held: Server[] = []
  try {
    const chosen = { ...ports }
    for (const name of Object.keys(ports) as Names[]) {
      if (chosen[name] !== 0) continue
      const server = await hold(host)
      held.push(server)
      chosen[name] = (server.address() as { port: number }).port
    }
    return chosen
  } finally {
    await Promise.all(held.map((server) => new Promise((done) => server.close(done))))
  }
}

async function hold(host: string): Promise<Server> {
  for (let attempt = 0; attempt < attempts; attempt++) {
    try {
      return await listening({ port: lowest + (next++ % (aboveHighest - lowest)), host })
    } catch (error) {
      if ((error as { code?: string }).code !== 'EADDRINUSE') throw error
    }
  }
  return listening({ port: 0, host })
}

function listening(address: { host: string; port: number }): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(address, () => resolve(server))
  })
}
