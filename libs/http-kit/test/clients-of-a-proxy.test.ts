/** Behind a proxy the clients have maximums and shares, not its connections. */

import t from 'tap'
import { until } from '../../../test/support/until.ts'
import {
  ask,
  type Client,
  dialSlow,
  evicted,
  get,
  handClock,
  listening,
  open,
  openOf,
  refused,
} from './dialled-host.ts'

t.test('a few clients of a proxy do not block its other clients', async (t) => {
  const { clock, pass } = handClock()
  const held = await listening(t, {
    connections: { max: 40, perNetworkMax: 20 },
    clock,
    trustProxy: ['loopback'],
  })
  const from = (client: number) => `X-Forwarded-For: 9.9.${client}.1\r\n`
  const greedy: Client[] = []
  for (const client of [1, 2, 3, 4])
    greedy.push(...(await dialSlow(held, Array(10).fill('127.0.0.1'), from(client))))
  t.equal(await open(held), 40)
  for (let at = 0; at < 5; at++) {
    pass(500)
    t.equal(await ask(held, '127.0.0.1', `X-Forwarded-For: 8.8.${at}.1\r\n`), '200')
  }
  t.equal((await evicted(held, 'young')) + (await evicted(held, 'slow')) > 0, true)
  t.equal(await refused(held, 'full'), 0)
  t.ok(openOf(greedy) < 40)
})

t.test(
  'a client of a proxy gets its fair share of a scarce host, and its maximum of a free one',
  async (t) => {
    const { clock } = handClock()
    const held = await listening(t, {
      connections: { max: 40, perNetworkMax: 30 },
      clock,
      trustProxy: ['loopback'],
    })
    const from = (client: number) => `X-Forwarded-For: 9.9.${client}.1\r\n`
    await dialSlow(held, Array(4).fill('127.0.0.1'), from(1))
    await dialSlow(held, Array(4).fill('127.0.0.1'), from(2))
    await dialSlow(held, Array(10).fill('127.0.0.1'), from(3))
    await dialSlow(held, Array(2).fill('127.0.0.1'), from(4))
    t.equal(await ask(held, '127.0.0.1', from(3)), '429', 'a fourth of 40')
    t.equal(await ask(held, '127.0.0.1', from(1)), '200')
  },
)

t.test('a proxy has no maximum of its own; the requests of its clients have', async (t) => {
  const held = await listening(t, {
    connections: { max: 100, perNetworkMax: 2 },
    trustProxy: ['loopback'],
  })
  const ask = async (name: string, client: string) => {
    const connection = await held.dial()
    connection.socket.write(get(`/held/${name}`, `X-Forwarded-For: ${client}\r\n`))
    return connection
  }
  for (const [at, client] of [
    '10.0.0.1',
    '10.0.0.1',
    '10.0.0.2',
    '[2001:db8::1]:80',
    '2001:db8::2',
  ].entries())
    await ask(`${at}`, client)
  await until(() => held.handled.length === 5)
  const over = await ask('over', '10.0.0.1:4444')
  await until(() => over.received() !== '')
  t.match(over.received(), /^HTTP\/1\.1 429 /)
  const over6 = await ask('over', '2001:db8::ffff')
  await until(() => over6.received() !== '')
  t.match(over6.received(), /^HTTP\/1\.1 429 /, 'a /64 is one network')
  held.answer()
  await until(async () => {
    const next = await held.dial()
    next.socket.write(get('/now', 'X-Forwarded-For: 10.0.0.1\r\n'))
    await until(() => next.received() !== '')
    return next.received().includes('HTTP/1.1 200')
  })
})

t.test('a /48 of v6 has the requests of two networks under way behind a proxy', async (t) => {
  const held = await listening(t, {
    connections: { max: 100, perNetworkMax: 2 },
    trustProxy: ['loopback'],
  })
  const ask = async (client: string) => {
    const connection = await held.dial()
    connection.socket.write(get('/held/a', `X-Forwarded-For: ${client}\r\n`))
    return connection
  }
  for (let network = 0; network < 4; network++) await ask(`2001:db8:1:${network}::1`)
  await until(() => held.handled.length === 4)
  const over = await ask('2001:db8:1:4::1')
  await until(() => over.received() !== '')
  t.match(over.received(), /^HTTP\/1\.1 429 /)
  await ask('2001:db8:2::1')
  await until(() => held.handled.length === 5)
  held.answer()
  await until(async () => {
    const next = await ask('2001:db8:1:5::1')
    await until(() => next.received() !== '' || held.handled.length === 6)
    return held.handled.length === 6
  })
})

t.test('addresses with ports are read; invalid text counts as the proxy that passed it on', async (t) => {
  const held = await listening(t, { trustProxy: ['127.0.0.0/8', '10.0.0.0/8'] })
  const addressOf = async (forwarded: string) => {
    const client = await held.dial('127.0.0.7')
    client.socket.write(get('/now', `X-Forwarded-For: ${forwarded}\r\n`))
    await until(() => client.received().includes('"address"'))
    return /"address":"([^"]*)"/.exec(client.received())?.[1]
  }
  t.equal(await addressOf('1.2.3.4'), '1.2.3.4')
  t.equal(await addressOf('1.2.3.4:5555'), '1.2.3.4')
  t.equal(await addressOf('[2001:db8::7]:80'), '2001:db8::7')
  t.equal(await addressOf('[2001:db8::7]'), '2001:db8::7')
  t.equal(await addressOf('::ffff:1.2.3.4'), '1.2.3.4')
  t.equal(
    await addressOf('1.2.3.4:5555, 10.0.0.8:1234'),
    '1.2.3.4',
    'a proxy that reports itself with its port is recognised',
  )
  t.equal(await addressOf('nonsense'), '127.0.0.7')
  t.equal(await addressOf('unknown, 10.0.0.8'), '10.0.0.8')
  t.equal(await addressOf('127.1'), '127.0.0.7', 'a short form is no address')
  t.equal(await addressOf('9.9.9.9, 1.2.3.4'), '1.2.3.4', 'an untrusted sender is ignored')
})
