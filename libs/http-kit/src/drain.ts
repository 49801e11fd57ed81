/** How a host ends: running requests may finish, within a deadline. */
import type { ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'

/**
 * After `app.close()` begins, each connection ends after its current answer; what is not done after
 * `drainMs` is cut. Without this a connection whose answer ends during the close would stay idle
 * until its keep-alive time ends, and a slow download would block the close for an unlimited time.
 */
export function drainOnClose(app: FastifyInstance, { drainMs }: { drainMs: number }): void {
  const running = new Set<ServerResponse>()
  let closing = false
  let deadline: NodeJS.Timeout | undefined
  app.server.on('request', (_request, response: ServerResponse) => {
    const { socket } = response
    running.add(response)
    response.once('close', () => {
      running.delete(response)
      if (closing) socket?.destroySoon()
    })
  })
  app.addHook('preClose', async () => {
    closing = true
    // A proxy would send its next request on a connection that ends with this answer.
    for (const response of running) if (!response.headersSent) response.shouldKeepAlive = false
    deadline = setTimeout(() => {
      for (const response of running) response.destroy()
    }, drainMs)
  })
  app.addHook('onClose', async () => clearTimeout(deadline))
}
