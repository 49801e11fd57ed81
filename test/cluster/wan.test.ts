/** The link between the regions delays, holds and continues, each direction by itself. */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import { type Address, Wan } from '../../infra/cluster/wan.ts'

const delayMs = 30

async function echoing(): Promise<{ target: Address; close: () => void }> {
  const server = createServer((socket) => socket.on('error', () => {}).pipe(socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  return { target: { host: '127.0.0.1', port }, close: () => server.close() }
}

async function linked(t: { teardown(end: () => void): unknown }): Promise<{ wan: Wan; socket: Socket }> {
  const { target, close } = await echoing()
  const wan = await Wan.open([{ from: 'a', to: 'b', target }], { delayMs })
  t.teardown(() => {
    wan.close()
    close()
  })
  const socket = connect(wan.routeOf('a', target)).setEncoding('utf8')
  t.teardown(() => socket.destroy())
  return { wan, socket }
}

async function next(socket: Socket): Promise<string> {
  const [text] = await once(socket, 'data')
  return text as string
}

t.test('every message takes the delay, in both directions', async (t) => {
  const { socket } = await linked(t)
  socket.write('first')
  await next(socket)
  const asked = performance.now()
  socket.write('again')
  t.equal(await next(socket), 'again')
  const tookMs = performance.now() - asked
  t.ok(tookMs >= 2 * delayMs - 2, `${tookMs} ms`)
})

for (const [from, to] of [
  ['a', 'b'],
  ['b', 'a'],
] as const)
  t.test(
    `nothing passes from ${from} to ${to} while it is cut, and everything in its order afterwards`,
    async (t) => {
      const { wan, socket } = await linked(t)
      socket.write('0')
      await next(socket)
      wan.cut(from, to)
      socket.write('1')
      let got = ''
      socket.on('data', (text) => {
        got += text
      })
      await new Promise((resolve) => setTimeout(resolve, 6 * delayMs))
      socket.write('2')
      t.equal(got, '')
      wan.join(from, to)
      while (got.length < 2) await once(socket, 'data')
      t.equal(got, '12')
    },
  )

t.test('ends and resets are delayed, too', async (t) => {
  const { socket } = await linked(t)
  socket.write('whole')
  t.equal(await next(socket), 'whole')
  const ended = once(socket, 'end')
  socket.end()
  await ended
})
