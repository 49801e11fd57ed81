/** The links between the regions delay, hold and continue, each direction by itself. */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import { cassandraSender, gatewaySender } from '../../infra/cluster/links.ts'
import { type Address, Wan } from '../../infra/cluster/wan.ts'
import { freePort } from '../../infra/servers/ports.ts'

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

/** Greets, then echoes, as a server that speaks first. */
async function greeting(t: { teardown(end: () => void): unknown }): Promise<Address> {
  const server = createServer((socket) => {
    socket.on('error', () => {}).write('hello')
    socket.pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { host: '127.0.0.1', port: (server.address() as { port: number }).port }
}

/** Both regions connect to one listener of c; the first line says the region. */
async function shared(t: { teardown(end: () => void): unknown }): Promise<{ wan: Wan; open: () => Socket }> {
  const target = await greeting(t)
  const listen = { host: '127.0.0.1', port: await freePort() }
  const regionIn = (bytes: Buffer) => /^([ab])\n/.exec(bytes.toString())?.[1]
  const wan = await Wan.open([{ from: { regions: ['a', 'b'], regionIn }, to: 'c', target, listen }], {
    delayMs,
  })
  t.teardown(() => wan.close())
  return {
    wan,
    open() {
      const socket = connect(listen).setEncoding('utf8')
      t.teardown(() => socket.destroy())
      return socket
    },
  }
}

const untilGot = async (socket: Socket, wanted: string): Promise<void> => {
  for (let got = ''; got !== wanted; ) got += await next(socket)
}

t.test('regions that share a listener are recognised by their first bytes', async (t) => {
  for (const [from, to] of [
    ['a', 'c'],
    ['c', 'a'],
  ] as const) {
    const { wan, open } = await shared(t)
    wan.cut(from, to)
    const [a, b] = [open(), open()]
    await Promise.all([untilGot(a, 'hello'), untilGot(b, 'hello')])
    let got = ''
    a.on('data', (text) => {
      got += text
    })
    // In parts: the region is known when the line is whole.
    a.write('a')
    a.write('\n1')
    b.write('b\n2')
    await untilGot(b, 'b\n2')
    await new Promise((resolve) => setTimeout(resolve, 6 * delayMs))
    t.notMatch(got, '1', `${from} to ${to} is cut`)
    wan.join(from, to)
    while (!got.endsWith('1')) await once(a, 'data')
    t.equal(got, 'a\n1')
  }
})

t.test('a region that is cut from all others hears and says nothing', async (t) => {
  const { wan, open } = await shared(t)
  for (const region of ['a', 'b']) wan.cut('c', region)
  const socket = open()
  let got = ''
  socket.on('data', (text) => {
    got += text
  })
  await new Promise((resolve) => setTimeout(resolve, 6 * delayMs))
  t.equal(got, '')
  wan.join('c', 'b')
  await once(socket, 'data')
  t.equal(got, 'hello')
})

t.test('the first messages of Cassandra and of gateways name their region', async (t) => {
  // As Cassandra 5 and nats-server sent them.
  const initiate = Buffer.from('ca552dfa0d0c0c11067f0046021b58a6c1378a', 'hex')
  t.equal(cassandraSender(initiate), '127.0.70.2')
  for (let length = 0; length < 15; length++)
    t.equal(cassandraSender(initiate.subarray(0, length)), undefined, `${length} bytes`)
  t.equal(cassandraSender(Buffer.concat([Buffer.from('GET '), initiate])), undefined)
  const connecting = Buffer.from(
    'CONNECT {"echo":false,"verbose":false,"pedantic":false,"user":"holdfast","pass":"x","tls_required":false,"headers":false,"name":"NBZD7O5BCV7CK6RRKCBTLJNR3J5L2XMXRZRZKHATTINKJC3QVO2Q65NQ","cluster":"","gateway":"na-nyc"}\r\n',
  )
  t.equal(gatewaySender(connecting), 'na-nyc')
  t.equal(gatewaySender(connecting.subarray(0, -2)), undefined, 'not whole')
  for (const text of ['CONNECT {}\r\n', 'CONNECT {"gateway":1}\r\n', 'CONNECT {x}\r\n', 'PING\r\n'])
    t.equal(gatewaySender(Buffer.from(text)), undefined, text)
})
