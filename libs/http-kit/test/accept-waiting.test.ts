import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { nextWaiting, type WaitingConnection } from '../src/connections/accept-waiting.ts'

/** Elsewhere Node accepts them. */
const onLinux = { skip: process.platform !== 'linux' && 'accept4 is a call of Linux' }

t.test('a waiting connection shows whether it has ended', onLinux, async (t) => {
  const waiting = new Map<string, WaitingConnection>()
  const server = createServer((socket) => {
    t.teardown(() => socket.destroy())
    for (let next = nextWaiting(socket); next !== undefined; next = nextWaiting(socket))
      waiting.set(next.address ?? '', next)
  })
  server.listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const dial = (localAddress: string): Socket => {
    const socket = connect({ port, host: '127.0.0.1', localAddress, allowHalfOpen: true })
    socket.on('error', () => {})
    t.teardown(() => socket.destroy())
    return socket
  }
  // Node takes the first one itself.
  const [, closing, resetting, asking, idle] = [1, 2, 3, 4, 5].map((last) => dial(`127.0.0.${last}`)) as [
    Socket,
    Socket,
    Socket,
    Socket,
    Socket,
  ]
  await until(() => waiting.size === 4)
  const isOver = (client: string) => waiting.get(client)?.hasEnded()
  t.same(
    [2, 3, 4, 5].map((last) => isOver(`127.0.0.${last}`)),
    [false, false, false, false],
  )

  asking.end('GET / HTTP/1.1\r\n\r\n')
  await once(asking, 'finish')
  closing.end()
  resetting.resetAndDestroy()
  await until(() => isOver('127.0.0.2') === true && isOver('127.0.0.3') === true)
  t.notOk(isOver('127.0.0.4'), 'it closed its half behind a request')
  t.notOk(isOver('127.0.0.5'))
  idle.end()
  await until(() => isOver('127.0.0.5') === true)
  for (const one of waiting.values()) one.refuse('')
})
