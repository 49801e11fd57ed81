/** Many connections at once, of which some have ended before they are accepted. */

import { readFileSync } from 'node:fs'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { crowd, evicted, get, listening, onLinux, open, refused } from './dialled-host.ts'

/** Turns of the loop until then. */
async function turnsUntil(condition: () => Promise<boolean>): Promise<number> {
  for (let turns = 0; ; turns++) {
    if (await condition()) return turns
    await new Promise((resolve) => setImmediate(resolve))
  }
}

t.test('a crowd is accepted in a few turns of the loop', onLinux, async (t) => {
  const held = await listening(t)
  crowd(t, held, 200)
  t.ok((await turnsUntil(async () => (await open(held)) === 200)) < 20)
})

t.test('the request of a known client does not wait for a crowd that begins', onLinux, async (t) => {
  // Each read of the clock advances it, so that a turn of the loop has time for one connection.
  let nowMs = 1_000
  const clock = { now: () => nowMs, monotonic: () => (nowMs += 2) }
  const held = await listening(t, { clock })
  const known = await held.dial()
  known.socket.write(get('/now'))
  await until(() => known.received().includes('"ok"'))
  for (const { socket } of crowd(t, held, 60)) socket.write(get('/now'))
  await until(async () => (await open(held)) === 61)
  known.socket.write(get('/held/known'))
  t.ok((await turnsUntil(async () => held.handled.length === 1)) < 10)
})

t.test('of a crowd, what fits is served and the rest is refused', async (t) => {
  const held = await listening(t, { connections: { max: 100, perNetworkMax: 10 } })
  const clients = crowd(t, held, 40)
  await until(() => clients.filter(({ received }) => received.includes('429')).length === 30)
  t.match(clients[20]?.received, /^HTTP\/1\.1 429 [\s\S]*Retry-After: \d+[\s\S]*"error-rateLimit"}$/)
  t.equal(await refused(held, 'network'), 30)
  for (const { socket } of clients.slice(0, 10)) socket.write(get('/now'))
  await until(() => clients.slice(0, 10).every(({ received }) => received.includes('"127.0.0.1"')))
  for (const { socket } of clients) socket.destroy()
  await until(async () => (await open(held)) === 0)
})

/** Connections of this port in a state, as the system counts them at its end. */
function inState(port: number, state: string): number {
  const local = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const lines = readFileSync('/proc/self/net/tcp', 'latin1').split('\n')
  return lines.filter((line) => {
    const fields = line.trim().split(/\s+/)
    return fields[1] === local && fields[3] === state
  }).length
}

const established = '01'

const closedByClient = '08'

t.test('connections of a crowd that have already ended take no place', onLinux, async (t) => {
  const held = await listening(t, { connections: { max: 100, perNetworkMax: 10 } })
  const { port } = held.app.server.address() as { port: number }
  const ended = crowd(t, held, 40)
  // They are dialled in the next tick. The loop waits until the system has their ends.
  await new Promise<void>((resolve) => process.nextTick(resolve))
  while (inState(port, established) < 40);
  for (const { socket } of ended) socket.destroy()
  while (inState(port, closedByClient) < 40);
  // Node itself accepts the first of each turn, and that one has a place for a moment.
  const clients = crowd(t, held, 5)
  for (const { socket } of clients) socket.write(get('/now'))
  await until(() => clients.every(({ received }) => received.includes('HTTP/1.1')))
  t.same(
    clients.filter(({ received }) => !received.includes('"127.0.0.1"')),
    [],
  )
  t.equal(await refused(held, 'network'), 0)
})

t.test('silent connections of a crowd are dropped for new ones before their sockets are made', async (t) => {
  const held = await listening(t, { connections: { max: 20, perNetworkMax: 20 } })
  crowd(t, held, 60)
  await until(
    async () =>
      (await evicted(held, 'silent')) + (await refused(held, 'full')) + (await refused(held, 'network')) ===
      40,
  )
  t.equal(await open(held), 20)
})

t.test('a close waits for each connection of a crowd, and for no silent one', async (t) => {
  const held = await listening(t)
  const clients = crowd(t, held, 6)
  for (const [at, { socket }] of clients.slice(0, 5).entries()) socket.write(get(`/held/${at}`))
  await until(() => held.handled.length === 5)
  let isClosed = false
  const closed = held.app.close().then(() => {
    isClosed = true
  })
  for (let answered = 1; answered <= 5; answered++) {
    t.notOk(isClosed)
    held.answer()
    await until(() => clients.filter(({ received }) => received.includes('"ok"')).length === answered)
    for (const client of clients) if (client.received.includes('"ok"')) client.socket.destroy()
  }
  await closed
})
