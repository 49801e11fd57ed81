import type { FastifyRequest } from 'fastify'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t, { type Test } from 'tap'
import {
  createHttpHost,
  createRateLimits,
  type Guess,
  networkOf,
  ok,
  ownParts,
  type RateLimitPolicies,
  RefusalError,
} from '../src/index.ts'
import { normalAddress } from '../src/rate-limits/addresses.ts'
import { CounterTable } from '../src/rate-limits/counter-table.ts'
import { GuessGates } from '../src/rate-limits/guesses.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))

const policies: RateLimitPolicies = {
  standard: { quota: 3, windowSeconds: 10 },
  endpoints: { search: { quota: 1, windowSeconds: 60 } },
  accounts: {},
  guesses: {
    token: { quota: 2, windowSeconds: 60 },
    code: { quota: 2, windowSeconds: 60 },
    password: { quota: 2, windowSeconds: 60 },
  },
  excess: { quota: 5, windowSeconds: 300 },
}

function limiter(mode: 'default' | 'off' = 'default') {
  const clock = { nowMs: 1_700_000_000_000, now: () => clock.nowMs, monotonic: () => clock.nowMs }
  const limits = createRateLimits({ mode, clock, policies })
  const from = (ip: string) => ({ ip, rateLimit: null }) as unknown as FastifyRequest
  const outcome = async (call: Promise<void> | undefined) => {
    try {
      await call
      return 'ok'
    } catch (error) {
      if (error instanceof RefusalError) return `${error.status} ${error.retryAfter}`
      throw error
    }
  }
  return { clock, limits, from, outcome }
}

t.test('a budget is per endpoint and network, and returns with the window', async (t) => {
  const { clock, limits, from, outcome } = limiter()
  const take = (ip: string, endpoint = 'x') => outcome(limits.takeAddress(from(ip), endpoint))
  t.same([await take('10.0.0.1'), await take('10.0.0.1'), await take('::ffff:10.0.0.1')], ['ok', 'ok', 'ok'])
  t.match(await take('10.0.0.1'), /^error-rateLimit 10$/)
  t.equal(await take('10.0.0.2'), 'ok')
  t.equal(await take('10.0.0.1', 'search'), 'ok')
  t.match(await take('10.0.0.1', 'search'), /^error-rateLimit \d+$/)
  clock.nowMs += 10_000
  t.equal(await take('10.0.0.1'), 'ok')
})

t.test('a v6 /48 has the budget of sixteen networks, and no v4 network has one above it', async (t) => {
  const { clock, limits, from, outcome } = limiter()
  const take = (ip: string) => outcome(limits.takeAddress(from(ip), 'x'))
  for (let network = 0; network < 48; network++) t.equal(await take(`2001:db8:1:${network}::1`), 'ok')
  t.match(await take('2001:db8:1:ffff::1'), 'error-rateLimit', 'a new network of it')
  t.equal(await take('2001:db8:2::1'), 'ok', 'another /48')
  for (let host = 0; host < 60; host++) t.equal(await take(`10.1.1.${host}`), 'ok')
  clock.nowMs += 10_000
  t.equal(await take('2001:db8:1:ffff::1'), 'ok')
})

t.test('guesses from the networks of a /48 have the budget of sixteen, also while they run', async (t) => {
  const { limits, from } = limiter()
  const begin = (network: number) => limits.beginGuess(from(`2001:db8:1:${network}::1`), 'password')
  const { quota } = policies.guesses.password
  const guesses = []
  for (let network = 0; network < 16; network++)
    for (let at = 0; at < quota; at++) guesses.push(await begin(network))
  const late = begin(16)
  for (const guess of guesses) guess.end({ wrong: true })
  await t.rejects(late, { message: 'error-rateLimit' })
  await t.rejects(begin(17), { message: 'error-rateLimit' })
  await limits.beginGuess(from('2001:db8:2::1'), 'password')
})

t.test('a v6 /64 is one network', async (t) => {
  const { limits, from, outcome } = limiter()
  for (const ip of ['2001:db8::1', '2001:db8::ffff', '2001:db8:0:0:1::'])
    t.equal(await outcome(limits.takeAddress(from(ip), 'x')), 'ok')
  t.match(await outcome(limits.takeAddress(from('2001:db8::9'), 'x')), 'error-rateLimit')
  t.equal(await outcome(limits.takeAddress(from('2001:db8:0:1::9'), 'x')), 'ok')
  t.equal(networkOf('1.2'), '1.2', 'without a colon it is not parsed: an address comes as it is spelt')
  t.equal(networkOf('2001:db8:1:2:3::4'), '2001:db8:1:2::/64')
  t.equal(normalAddress('fe80::1%eth0'), 'fe80::1')
  t.equal(normalAddress('nonsense'), undefined)
})

t.test('repeated excess bans, each time for longer, and bans can be shared', async (t) => {
  const { clock, limits, from, outcome } = limiter()
  const take = () => outcome(limits.takeAddress(from('10.0.0.1'), 'x'))
  for (let at = 0; at < 8; at++) await take()
  t.equal(await take(), 'error-rateLimit 60')
  clock.nowMs += 59_000
  t.equal(await take(), 'error-rateLimit 1')
  t.same(limits.bans(), [{ network: '10.0.0.1', untilMs: 1_700_000_060_000, times: 1 }])
  const other = limiter()
  other.limits.takeBans(limits.bans())
  t.equal(await other.outcome(other.limits.takeAddress(other.from('10.0.0.1'), 'y')), 'error-rateLimit 60')
  clock.nowMs += 1_000
  t.equal(await take(), 'ok')
  for (let at = 0; at < 9; at++) await take()
  t.equal(limits.bans()[0]?.times, 2)
  t.ok(limits.liftBan('10.0.0.1'))
  t.same(limits.bans(), [])
})

t.test('once its guesses are spent an address is not checked any more', async (t) => {
  const { limits, from, outcome } = limiter()
  const request = from('10.0.0.1')
  const wrong = async (kind: 'password' | 'token') =>
    (await limits.beginGuess(request, kind)).end({ wrong: true })
  t.equal(await outcome(wrong('password')), 'ok')
  t.equal(await outcome(wrong('password')), 'ok')
  t.match(await outcome(wrong('password')), 'error-rateLimit')
  t.equal(await outcome(wrong('token')), 'ok')
})

t.test('running and wrong guesses together never exceed the budget', async (t) => {
  const { limits, from } = limiter()
  const underWay: Guess[] = []
  let refused = 0
  const burst = Array.from({ length: 300 }, () =>
    limits.beginGuess(from('10.0.0.1'), 'password').then(
      (guess) => underWay.push(guess),
      (error) => {
        t.equal(error.status, 'error-rateLimit')
        refused++
      },
    ),
  )
  await turn()
  t.equal(underWay.length, 2, 'the budget; the others wait')
  underWay.pop()?.end({ wrong: true })
  await turn()
  t.same([underWay.length, refused], [1, 0], 'a wrong one makes no room')
  underWay.pop()?.end({ wrong: false })
  await turn()
  t.same([underWay.length, refused], [1, 0], 'a right one does')
  underWay.pop()?.end({ wrong: true })
  await Promise.all(burst)
  t.same([underWay.length, refused], [0, 297], 'no request waits for a spent budget')
  await t.rejects(limits.beginGuess(from('10.0.0.1'), 'password'), { message: 'error-rateLimit' })
})

t.test('right guesses of one network, however many at one time, are only delayed', async (t) => {
  const { limits, from } = limiter()
  const guessed = Array.from({ length: 200 }, async () => {
    const guess = await limits.beginGuess(from('10.0.0.1'), 'token')
    await turn()
    guess.end({ wrong: false })
  })
  t.equal((await Promise.all(guessed)).length, 200)
  const next = await limits.beginGuess(from('10.0.0.1'), 'token')
  next.end({ wrong: false })
})

t.test('guesses that wait are bounded', async (t) => {
  const { limits, from } = limiter()
  const settled = Array.from({ length: 1_500 }, () =>
    limits.beginGuess(from('10.0.0.1'), 'code').then(
      (guess) => guess,
      (error) => error.status,
    ),
  )
  await turn()
  const [first, second] = await Promise.all([settled[0], settled[1]])
  t.equal(await settled[1_499], 'error-rateLimit')
  first.end({ wrong: true })
  second.end({ wrong: true })
  const outcomes = await Promise.all(settled)
  t.equal(outcomes.filter((outcome) => outcome === 'error-rateLimit').length, 1_498)
})

t.test('two requests that wait for each other are refused in the end', async (t) => {
  const gates = new GuessGates({ waitMs: 20 })
  const room = () => 1
  t.ok(await gates.begin('token', room), 'one tries a token')
  t.ok(await gates.begin('password', room), 'another one a password')
  const crossed = await Promise.all([gates.begin('password', room), gates.begin('token', room)])
  t.same(crossed, [false, false])
  gates.end('token', room)
  gates.end('password', room)
  t.equal(gates.size, 0, 'a request that waited too long has taken nothing')
  t.ok(await gates.begin('token', room))
})

t.test('off lifts all limits', async (t) => {
  const { limits, from, outcome } = limiter('off')
  const request = from('10.0.0.1')
  for (let at = 0; at < 50; at++) {
    t.equal(await outcome(limits.takeAddress(request, 'x')), 'ok')
    const guess = await limits.beginGuess(request, 'password')
    guess.end({ wrong: true })
    t.equal(await outcome(limits.takeAccount(request, 'x', 'a')), 'ok')
  }
  limits.takeBans([{ network: '10.0.0.1', untilMs: 2e12, times: 1 }])
  t.equal(await outcome(limits.takeAddress(request, 'x')), 'ok')
})

t.test('a flood of keys neither grows a table nor frees those who are over', async (t) => {
  const table = new CounterTable({ windowMs: 1000, keysMax: 10 })
  const add = (key: string, outerKey: string) => table.add(key, { outerKey, quota: 2, points: 1, nowMs: 500 })
  for (let at = 0; at < 5; at++) add('victim', 'net')
  for (let at = 0; at < 1000; at++) add(`attacker${at}`, `outer${at}`)
  t.ok(table.size <= 21)
  t.equal(add('victim', 'net').count, 6)
  const shared = add('attacker5000', 'outer5000')
  t.ok(shared.count > shared.quota, 'late attackers share one counter')
})

/** A host with limits whose clock does not advance. */
function limitedHost(t: Test) {
  const clock = { now: () => 1_700_000_000_000, monotonic: () => 0 }
  const app = createHttpHost({
    ...ownParts,
    isBanned: undefined,
    name: 'api',
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
    trustProxy: false,
    cors: true,
    rateLimits: createRateLimits({ mode: 'default', clock, policies }),
  })
  t.teardown(() => app.close())
  return app
}

t.test('answers report the rest of the budget', async (t) => {
  const app = limitedHost(t)
  app.get('/x', { config: { endpoint: 'x' } }, async () => ok({}))
  const first = await app.inject({ method: 'GET', url: '/x' })
  t.equal(first.headers['ratelimit-policy'], '"address";q=3;w=10')
  t.equal(first.headers.ratelimit, '"address";r=2;t=10')
  await app.inject({ method: 'GET', url: '/x' })
  await app.inject({ method: 'GET', url: '/x' })
  const over = await app.inject({ method: 'GET', url: '/x' })
  t.equal(over.statusCode, 429)
  t.same(over.json(), { status: 'error-rateLimit' })
  t.equal(over.headers['retry-after'], '10')
  t.equal(over.headers.ratelimit, '"address";r=0;t=10')
})

t.test('a large body counts as several requests', async (t) => {
  const app = limitedHost(t)
  app.post('/x', { config: { endpoint: 'x' } }, async () => ok({}))
  const post = (bytes: number) =>
    app.inject({ method: 'POST', url: '/x', payload: { text: 'x'.repeat(bytes - '{"text":""}'.length) } })
  t.equal((await post(12_287)).statusCode, 200)
  t.equal((await post(12_288)).statusCode, 200, 'what comes next is refused, not the large one')
  t.equal((await post(20)).statusCode, 429)
})
