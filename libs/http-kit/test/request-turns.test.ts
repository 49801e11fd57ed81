import { pino } from 'pino'
import { Registry } from 'prom-client'
import t, { type Test } from 'tap'
import { AnswerBudget, createHttpHost, createRateLimits, ok } from '../src/index.ts'

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Each request takes 5 ms; nothing else advances time. */
async function hosts(t: Test) {
  const clock = { nowMs: 0, now: () => clock.nowMs, monotonic: () => clock.nowMs }
  const { requests: turns } = new AnswerBudget({ clock })
  const begun: string[] = []
  const host = async (name: 'api' | 'upload') => {
    const app = createHttpHost({
      ...{ name, clock, turns, cors: true, trustProxy: false },
      log: pino({ level: 'silent' }),
      metrics: new Registry(),
      rateLimits: createRateLimits({ mode: 'off', clock }),
    })
    app.get('/list', async (request) => {
      begun.push(request.ip)
      clock.nowMs += 5
      return ok({})
    })
    t.teardown(() => app.close())
    await app.ready()
    return async (remoteAddress: string, signal = new AbortController().signal) => {
      await app.inject({ method: 'GET', url: '/list', remoteAddress, signal })
    }
  }
  return { ask: await host('api'), askAnother: await host('upload'), begun }
}

const busy = Array.from({ length: 40 }, (_, number) => `198.51.100.${number}`)
const rare = '192.0.2.1'

t.test('a request of a network that asks rarely begins before those of forty that always ask', async (t) => {
  const { ask, askAnother, begun } = await hosts(t)
  const crowd = () => busy.map((address) => ask(address))
  const first = crowd()
  while (begun.length < 5) await nextTurn()
  t.ok(begun.length < 8, `${begun.length} began in a few turns of the loop`)
  await Promise.all(first)
  t.same([...begun].sort(), [...busy].sort(), 'each is answered')
  begun.length = 0
  const second = [...crowd(), askAnother(rare)]
  await Promise.all(second)
  t.ok(begun.indexOf(rare) <= 1, `${begun.indexOf(rare)} of others began before, on whatever host`)
})

t.test('a request whose client has gone while it waited does not begin', async (t) => {
  const { ask, begun } = await hosts(t)
  const answers = busy.slice(0, 3).map((address) => ask(address))
  const client = new AbortController()
  const gone = ask(rare, client.signal)
  while (begun.length === 0) await nextTurn()
  client.abort()
  await Promise.all([...answers, t.rejects(gone)])
  for (let turn = 0; turn < 10; turn++) await nextTurn()
  t.same(begun, busy.slice(0, 3))
})
