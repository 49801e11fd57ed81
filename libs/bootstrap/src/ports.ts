/**
 * Ports before anything listens: links contain them, so they must be known when the hosts are made.
 */
import { createServer, type Server } from 'node:net'

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

function hold(host: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ port: 0, host }, () => resolve(server))
  })
}
