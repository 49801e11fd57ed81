import { once } from 'node:events'
import { connect } from 'node:net'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t, { type Test } from 'tap'
import {
  AnswerBudget,
  createHttpHost,
  createRateLimits,
  okWritten,
  ownParts,
  sendWritten,
  writeMembers,
} from '../src/index.ts'
import { plainBudget } from '../src/testing.ts'

const MiB = 1024 * 1024
const value = { text: 'x'.repeat(1_000) }

async function host(t: Test, { members, budget }: { members: number; budget: AnswerBudget }) {
  const made = { members: 0, charged: 0 }
  const app = createHttpHost({
    ...ownParts,
    isBanned: undefined,
    name: 'api',
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
    trustProxy: false,
    cors: true,
    rateLimits: createRateLimits({
      mode: 'off',
      clock: { now: Date.now, monotonic: () => performance.now() },
    }),
  })
  app.get('/list', (request, reply) => {
    const names = Array.from({ length: members }, (_, at) => `m${at}`)
    const answer = okWritten(
      {
        bytes: members * 1_000,
        write: (json) =>
          writeMembers(json, names, (name) => {
            made.members++
            return [name, value]
          }),
      },
      { page: 1 },
    )
    return sendWritten(request, reply, { answer, budget, charge: () => made.charged++ })
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())
  return { made, port: (app.server.address() as { port: number }).port }
}

/** Until nothing changes any more. */
async function rest(look: () => number): Promise<void> {
  for (let before = -1, still = 0; still < 20; still = look() === before ? still + 1 : 0) {
    before = look()
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

t.test('a usual answer is one buffer with its length', async (t) => {
  const budget = new AnswerBudget(plainBudget)
  const { port, made } = await host(t, { members: 500, budget })
  const answer = await fetch(`http://127.0.0.1:${port}/list`)
  const text = await answer.text()
  t.equal(Number(answer.headers.get('content-length')), text.length)
  t.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8')
  t.same(Object.keys(JSON.parse(text)), ['status', 'data', 'metadata'])
  t.equal(made.charged, 0)
  await rest(() => budget.held)
  t.equal(budget.held, 0, 'nothing stays held')
})

t.test('a large answer comes whole, in slices, with the headers of every answer', async (t) => {
  const budget = new AnswerBudget(plainBudget)
  const { port, made } = await host(t, { members: 20_000, budget })
  const answer = await fetch(`http://127.0.0.1:${port}/list`)
  const { status, data, metadata } = (await answer.json()) as {
    status: string
    data: object
    metadata: object
  }
  t.equal(status, 'ok')
  t.same(metadata, { page: 1 })
  t.equal(Object.keys(data).length, 20_000)
  t.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8')
  t.equal(answer.headers.get('cache-control'), 'no-store')
  t.equal(answer.headers.get('access-control-allow-origin'), '*')
  t.ok(made.charged > 50, `${made.charged} slices were charged`)
  await rest(() => budget.held)
  t.equal(budget.held, 0)
  const head = await fetch(`http://127.0.0.1:${port}/list`, { method: 'HEAD' })
  t.equal(await head.text(), '')
})

t.test('unread parts of an answer are not made, and the loop turns between slices', async (t) => {
  const budget = new AnswerBudget(plainBudget)
  const { port, made } = await host(t, { members: 60_000, budget })
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.pause()
  socket.write('GET /list HTTP/1.1\r\nHost: x\r\n\r\n')
  await rest(() => made.members)
  t.ok(made.members > 0 && made.members < 15_000, `${made.members} of 60,000 members are made`)
  t.ok(budget.held > 0 && budget.held <= MiB * 1.1, `${budget.held} bytes are held`)
  socket.destroy()
  await once(socket, 'close')
  await rest(() => budget.held)
  t.equal(budget.held, 0, 'a reader that closes leaves nothing')
})

t.test('a large answer is made in pieces, and one of a network that asks rarely goes before', async (t) => {
  const time = { nowMs: 0, now: () => time.nowMs, monotonic: () => time.nowMs }
  const budget = new AnswerBudget({ ...plainBudget, clock: time })
  const made: string[] = []
  const app = createHttpHost({
    ...ownParts,
    isBanned: undefined,
    ...{ name: 'api', trustProxy: false, cors: true },
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
    rateLimits: createRateLimits({ mode: 'off', clock: time }),
  })
  app.get('/list/:members', (request, reply) => {
    const members = Number((request.params as { members: string }).members)
    const names = Array.from({ length: members }, (_, at) => `m${at}`)
    const answer = okWritten({
      bytes: members * 1_000,
      write: (json) =>
        writeMembers(json, names, (name) => {
          made.push(request.ip)
          time.nowMs += 0.1
          return [name, value]
        }),
    })
    return sendWritten(request, reply, { answer, budget, charge: () => {} })
  })
  t.teardown(() => app.close())
  await app.ready()
  const ask = async (members: number, remoteAddress: string) => {
    const answer = await app.inject({ method: 'GET', url: `/list/${members}`, remoteAddress })
    return Object.keys(answer.json<{ data: object }>().data).length
  }
  const large = Array.from({ length: 40 }, (_, number) => ask(800, `198.51.100.${number}`))
  while (made.length < 40 * 100) await new Promise((resolve) => setImmediate(resolve))
  const before = made.length
  t.equal(await ask(40, '192.0.2.1'), 40)
  const others = made.slice(before).indexOf('192.0.2.1')
  t.ok(others < 140, `${others} members of others are made before its own`)
  t.same(await Promise.all(large), Array(40).fill(800))
  const runs = made.filter((ip, at) => ip !== made[at - 1]).length
  t.ok(runs > 40 * 8, `${runs} pieces`)
})
