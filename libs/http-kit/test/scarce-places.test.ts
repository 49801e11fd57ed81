import t from 'tap'
import { until } from '../../../test/support/until.ts'
import {
  ask,
  type Client,
  dialSlow,
  evicted,
  get,
  handClock,
  idle,
  listening,
  onLinux,
  open,
  openOf,
  refused,
} from './dialled-host.ts'

t.test('a network at its maximum loses its longest idle connection, or is refused', async (t) => {
  const held = await listening(t, { connections: { max: 100, perNetworkMax: 2 } })
  const first = await held.dial()
  const second = await held.dial()
  second.socket.write(get('/held/a'))
  await until(() => held.handled.length === 1)
  const early = await held.dial()
  await early.closed
  t.match(early.received(), /^HTTP\/1\.1 429 .*Retry-After.*error-rateLimit/s, 'none is idle for a second')
  await idle()
  const third = await held.dial()
  await first.closed
  t.equal(await evicted(held, 'network'), 1)
  third.socket.write(get('/held/b'))
  await until(() => held.handled.length === 2)
  await idle()
  const fourth = await held.dial()
  await fourth.closed
  t.equal(await refused(held, 'network'), 2, 'both are busy')
  const other = await held.dial('127.0.0.2')
  other.socket.write(get('/now'))
  await until(() => other.received().includes('200'))
  t.equal(await open(held), 3)
})

t.test('above half of the maximum the largest network gives up idle connections for new ones', async (t) => {
  const held = await listening(t, { connections: { max: 10, perNetworkMax: 100 } })
  const idlers: Client[] = []
  for (let at = 0; at < 5; at++) {
    const client = await held.dial('127.0.0.9')
    client.socket.write(get('/now'))
    await until(() => client.received().includes('200'))
    idlers.push(client)
  }
  // Half a head is idle, too.
  idlers[4]?.socket.write('GET / HTTP/1.1\r\nHost:')
  await until(async () => (await open(held)) === 5)
  await idle()
  for (let at = 1; at <= 4; at++) {
    const newcomer = await held.dial(`127.0.0.${at}`)
    newcomer.socket.write(get('/now'))
    await until(() => newcomer.received().includes('200'))
  }
  await until(() => idlers.filter((client) => client.isOpen()).length === 1)
  t.equal(await evicted(held, 'idle'), 4)
  t.equal(await open(held), 5)
})

t.test('silent connections are closed before used ones, from any number of networks', async (t) => {
  const held = await listening(t, { connections: { max: 16, perNetworkMax: 100 } })
  const used: Client[] = []
  for (let at = 0; at < 3; at++) {
    const client = await held.dial('127.0.0.9')
    client.socket.write(get('/now'))
    await until(() => client.received().includes('200'))
    used.push(client)
  }
  await idle()
  // One from each network, more than there is room for; half a head counts as silence, too.
  const silent: Client[] = []
  for (let at = 1; at <= 30; at++) {
    const client = await held.dial(`127.0.1.${at}`)
    client.socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-')
    silent.push(client)
  }
  await until(() => silent.filter((client) => client.isOpen()).length <= 13)
  const newcomer = await held.dial('127.0.0.8')
  newcomer.socket.write(get('/now'))
  await until(() => newcomer.received().includes('200') || !newcomer.isOpen())
  t.ok(newcomer.isOpen(), 'there is room for a newcomer')
  t.same(
    used.map((client) => client.isOpen()),
    [true, true, true],
    'those in use stay',
  )
  t.equal(await refused(held, 'full'), 0)
  t.equal(await evicted(held, 'idle'), 0)
  t.equal(await evicted(held, 'silent'), 18)
})

t.test(
  'a full host closes slow connections of the largest network; a request that waits for the service stays',
  async (t) => {
    const held = await listening(t, { connections: { max: 6, perNetworkMax: 100 } })
    const slow: Client[] = []
    for (let at = 0; at < 4; at++) {
      const client = await held.dial('127.0.0.9')
      client.socket.write('POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{')
      slow.push(client)
    }
    const busy = await held.dial('127.0.0.9')
    busy.socket.write(get('/held/a'))
    await until(() => held.handled.length === 1)
    const one = await held.dial('127.0.0.1')
    one.socket.write(get('/held/b'))
    await until(() => held.handled.length === 2)
    // Its pace is known after two seconds.
    await idle()
    await idle()
    for (const from of ['127.0.0.2', '127.0.0.3']) {
      const newcomer = await held.dial(from)
      newcomer.socket.write(get('/now'))
      await until(() => newcomer.received().includes('200'))
    }
    t.equal(await evicted(held, 'slow'), 2)
    t.ok(busy.isOpen())
    t.ok(one.isOpen())
    t.equal(slow.filter((client) => client.isOpen()).length, 2)
  },
)

t.test('a full host refuses when all networks have the same', async (t) => {
  const held = await listening(t, { connections: { max: 3, perNetworkMax: 100 } })
  for (const at of [1, 2, 3]) {
    const client = await held.dial(`127.0.0.${at}`)
    client.socket.write(get(`/held/${at}`))
  }
  await until(() => held.handled.length === 3)
  const late = await held.dial('127.0.0.4')
  await late.closed
  t.match(late.received(), /^HTTP\/1\.1 503 .*error-unavailable/s)
  t.equal(await refused(held, 'full'), 1)
  held.answer()
  held.answer()
  held.answer()
  await until(async () => {
    const next = await held.dial('127.0.0.4')
    next.socket.write(get('/now'))
    await until(() => next.received() !== '' || !next.isOpen())
    return next.received().includes('200')
  })
})

t.test('on a host full of networks that keep asking, connections end with their answers', async (t) => {
  const { clock } = handClock()
  const held = await listening(t, { clock, connections: { max: 8, perNetworkMax: 8 } })
  const crowd = await Promise.all(Array.from({ length: 8 }, (_, number) => held.dial(`127.0.${number}.1`)))
  const askAll = async () => {
    const before = crowd.map(({ received }) => received().length)
    for (const { socket } of crowd) if (!socket.destroyed) socket.write(get('/now'))
    await until(() =>
      crowd.every((one, at) => !one.isOpen() || one.received().length > (before[at] as number)),
    )
  }
  await askAll()
  t.ok(
    crowd.every(({ isOpen }) => isOpen()),
    'all are kept while no request is refused',
  )
  const late = await held.dial('127.0.100.1')
  await late.closed
  t.match(late.received(), /^HTTP\/1\.1 503 /, 'by the clock none idles')
  await askAll()
  await Promise.all(crowd.map(({ closed }) => closed))
  t.match(crowd[0]?.received(), /connection: close/i)
  const newcomer = await held.dial('127.0.100.1')
  newcomer.socket.write(get('/now'))
  await until(() => newcomer.received() !== '')
  t.match(newcomer.received(), '200 OK')
})

t.test('one slow request from each of many networks blocks no client', async (t) => {
  const { clock, pass } = handClock()
  const held = await listening(t, { connections: { max: 6, perNetworkMax: 100 }, clock })
  const slow = await dialSlow(
    held,
    [1, 2, 3, 4].map((at) => `127.0.1.${at}`),
  )
  const steady = (await dialSlow(held, ['127.0.1.5']))[0] as Client
  const waiting = await held.dial('127.0.1.6')
  waiting.socket.write(get('/held/a'))
  await until(() => held.handled.length === 1)
  t.equal(await ask(held, '127.0.2.1'), '503', 'the pace of a request is not known at once')
  pass(2_000)
  steady.socket.write('x'.repeat(900))
  await until(() => held.bodyBytes() >= 900)
  t.equal(await ask(held, '127.0.2.2'), '200')
  t.equal(await evicted(held, 'slow'), 1)
  t.equal(await evicted(held, 'idle'), 0)
  await until(() => openOf(slow) === 3)
  t.ok(steady.isOpen(), 'the slowest is closed first')
  t.ok(waiting.isOpen(), 'a request that waits for us is not slow')
})

t.test('requests of a poor mobile connection are not slow, also after other requests', async (t) => {
  const { clock, pass } = handClock()
  const held = await listening(t, { connections: { max: 2, perNetworkMax: 100 }, clock, bodyBytesMax: 1e6 })
  const clients: Client[] = []
  for (const at of [1, 2]) {
    const client = await held.dial(`127.0.1.${at}`)
    client.socket.write('POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{')
    clients.push(client)
  }
  await until(() => held.begun() === 2)
  pass(2_000)
  for (const client of clients) client.socket.write('x'.repeat(10_000))
  await until(() => held.bodyBytes() >= 20_000)
  t.equal(await ask(held, '127.0.2.1'), '503')
  t.equal(openOf(clients), 2)
})

t.test('a network gains no places from others by reconnecting', async (t) => {
  const { clock, pass } = handClock()
  const held = await listening(t, { connections: { max: 6, perNetworkMax: 100 }, clock })
  const early = await dialSlow(held, ['127.0.1.1', '127.0.1.1', '127.0.1.1'])
  pass(1_000)
  const late = await dialSlow(held, ['127.0.1.1', '127.0.1.2', '127.0.1.2'])
  pass(500)
  t.equal(await ask(held, '127.0.2.1'), '200')
  await until(() => openOf(late) === 2)
  t.notOk(late[0]?.isOpen(), 'the youngest of the largest network')
  t.equal(openOf(early), 3)
  t.equal(await evicted(held, 'young'), 1)
})

t.test('a connection that was just made is not closed for a network that has more', async (t) => {
  const { clock, pass } = handClock()
  const held = await listening(t, { connections: { max: 6, perNetworkMax: 100 }, clock })
  await dialSlow(held, ['127.0.1.1', '127.0.1.1', '127.0.1.1', '127.0.1.2', '127.0.1.2'])
  const user = await held.dial('127.0.2.1')
  await until(async () => (await open(held)) === 6)
  t.equal(await ask(held, '127.0.1.2'), '503', 'its head may be on its way')
  pass(300)
  t.equal(await ask(held, '127.0.1.2'), '503', 'a larger network does not take its place')
  user.socket.write(get('/now'))
  await until(() => user.received() !== '' || !user.isOpen())
  t.match(user.received(), /^HTTP\/1\.1 200 /)
})

t.test('a full host closes what idles for long, not what was just answered', async (t) => {
  const { clock, pass } = handClock()
  const held = await listening(t, { connections: { max: 6, perNetworkMax: 100 }, clock })
  const use = async (client: Client, times: number) => {
    client.socket.write(get('/now'))
    await until(() => client.received().split('HTTP/1.1 200').length === times + 1)
  }
  const dialUsed = async (from: string[]) => {
    const clients = await Promise.all(from.map((address) => held.dial(address)))
    for (const client of clients) await use(client, 1)
    return clients
  }
  const longIdle = await dialUsed(['127.0.1.1', '127.0.1.2', '127.0.1.3'])
  // This network has the most.
  const busy = await dialUsed(['127.0.2.1', '127.0.2.1', '127.0.2.1'])
  pass(1_000)
  for (const client of busy) await use(client, 2)
  t.equal(await ask(held, '127.0.3.1'), '200')
  await until(() => openOf(longIdle) === 2)
  t.equal(openOf(busy), 3, 'their next request may be on its way')
  t.notOk(longIdle[0]?.isOpen(), 'the longest idle connection is closed')
})

t.test('a full host closes a waiting request of a network above its fair share', async (t) => {
  const held = await listening(t, { connections: { max: 12, perNetworkMax: 100 } })
  const begin = async (from: string) => {
    const client = await held.dial(from)
    const before = held.handled.length
    client.socket.write(get('/held/a'))
    await until(() => held.handled.length > before)
    return client
  }
  const first = []
  for (let at = 0; at < 6; at++) first.push(await begin('127.0.1.1'))
  for (let at = 0; at < 6; at++) first.push(await begin('127.0.1.2'))
  t.equal(await ask(held, '127.0.1.1'), '503', 'a browser has six')
  for (const { socket } of first.slice(0, 6)) socket.destroy()
  await until(async () => (await open(held)) === 6)
  for (let at = 0; at < 6; at++) await begin('127.0.1.2')
  t.equal(await ask(held, '127.0.1.3'), '200')
  t.equal(await evicted(held, 'young'), 1)
})

t.test('waiting requests of many networks do not shut out a network with few', async (t) => {
  const held = await listening(t, { connections: { max: 20, perNetworkMax: 100 } })
  const begin = async (from: string) => {
    const client = await held.dial(from)
    const before = held.handled.length
    client.socket.write(get('/held/a'))
    await until(() => held.handled.length > before)
  }
  for (const [network, count] of [6, 6, 5, 3].entries())
    for (let at = 0; at < count; at++) await begin(`127.0.1.${network}`)
  t.equal(await ask(held, '127.0.1.3'), '503', 'three are more than half of the fair share of five')
  t.equal(await ask(held, '127.0.2.1'), '200')
  t.equal(await evicted(held, 'young'), 1)
})

t.test(
  'a full host closes the reader that has taken nothing for the longest time',
  { skip: process.platform !== 'linux' && 'only Linux shows how much a reader has taken' },
  async (t) => {
    const { clock, pass } = handClock()
    const held = await listening(t, { connections: { max: 4, perNetworkMax: 100 }, clock })
    const begin = async (from: string) => {
      const client = await held.dial(from)
      client.socket.pause()
      client.socket.write(get('/large'))
      const sent = held.largeSent()
      await until(() => held.largeSent() > sent)
      return client
    }
    const stuck = await begin('127.0.1.1')
    const steady = await begin('127.0.1.2')
    const waiting = await held.dial('127.0.1.3')
    waiting.socket.write(get('/held/a'))
    await until(() => held.handled.length === 1)
    const other = await held.dial('127.0.1.4')
    other.socket.write(get('/held/b'))
    await until(() => held.handled.length === 2)
    const look = async () => {
      pass(100)
      return await ask(held, '127.0.2.1')
    }
    t.equal(await look(), '503', 'the first look sees what the systems took at once')
    // The system may still fill the buffers of the one that reads nothing: then look again.
    for (let status = '503'; status === '503'; status = await look()) {
      const taken = steady.socket.bytesRead
      steady.socket.resume()
      await until(() => steady.socket.bytesRead > taken + 16 * 1024 * 1024)
      steady.socket.pause()
      pass(100)
    }
    stuck.socket.resume()
    await stuck.closed
    t.equal(await evicted(held, 'stalled'), 1)
    t.same(
      [steady, waiting, other].map((client) => client.isOpen()),
      [true, true, true],
    )
  },
)

t.test(
  'a full host closes no stalled reader for a network that has many connections, or for a proxy',
  onLinux,
  async (t) => {
    const { clock, pass } = handClock()
    const held = await listening(t, {
      connections: { max: 12, perNetworkMax: 100 },
      clock,
      trustProxy: ['127.0.4.1'],
    })
    const stuck = await held.dial('127.0.1.1')
    stuck.socket.pause()
    stuck.socket.write(get('/large'))
    await until(() => held.largeSent() === 1)
    const waitFrom = async (from: string, count: number) => {
      for (let at = 0; at < count; at++) {
        const before = held.handled.length
        ;(await held.dial(from)).socket.write(get('/held/a'))
        await until(() => held.handled.length > before)
      }
    }
    await waitFrom('127.0.2.1', 6)
    await waitFrom('127.0.3.1', 5)
    // The system may still fill the stuck reader's buffers: it has stalled when these are full.
    const statusAfter = async (from: string) => {
      pass(100)
      return await ask(held, from)
    }
    for (let look = 0; look < 20; look++) {
      t.equal(await statusAfter('127.0.2.1'), '503')
      t.equal(await statusAfter('127.0.4.1'), '503')
    }
    t.equal(await evicted(held, 'stalled'), 0)
    for (let status = '503'; status === '503'; ) status = await statusAfter('127.0.3.1')
    t.equal(await evicted(held, 'stalled'), 1)
  },
)
