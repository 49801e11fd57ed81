/**
 * A listener that does nothing: it answers every head with the shortest `ok`. The same attack on it
 * shows what the users lose to the generator and the kernel alone, without any work of the service.
 */
import { createServer, type Server } from 'node:net'
import type { Target } from './attack.ts'

const body = '{"status":"ok","data":{}}'
const answer = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
const headEnd = '\r\n\r\n'

const server: Server = createServer((socket) => {
  socket.on('error', () => {})
  socket.on('data', (chunk) => {
    let heads = 0
    for (let at = chunk.indexOf(headEnd); at >= 0; at = chunk.indexOf(headEnd, at + 4)) heads++
    if (heads > 0 && socket.writableLength < 65_536) socket.write(answer.repeat(heads))
  })
})
server.listen({ host: '::', port: 0 }, () => {
  const { port } = server.address() as { port: number }
  process.send?.({
    ports: { api: port, upload: port, download: port, admin: port },
    pid: undefined,
  } satisfies Target)
})
process.on('disconnect', () => process.exit())
