import t from 'tap'
import { type AccessDecision, type AdminCaller, judge as judgeCall } from '../src/access/guard.ts'
import { commandOf } from '../src/accounts/account-change.ts'
import { Readiness } from '../src/health/readiness.ts'

const token = 'operator-secret-0123456789'
const here = { remoteAddress: '127.0.0.1', headers: { host: '127.0.0.1:8090' } }
type Call = Omit<AdminCaller, 'isOperator'> & Partial<Pick<AdminCaller, 'isOperator'>>
const judge = (asking: Call, token: string | undefined): Promise<AccessDecision> =>
  judgeCall({ isOperator: async () => true, ...asking }, [token])

t.test('callers on this machine need no token, with any name of loopback', async (t) => {
  for (const remoteAddress of ['127.0.0.1', '127.8.8.8', '::1', '::ffff:127.0.0.1']) {
    for (const host of ['localhost:8090', '127.0.0.1', '[::1]:8090'])
      t.equal(await judge({ remoteAddress, headers: { host } }, undefined), 'allowed')
  }
})

t.test('elsewhere only the token opens, and nothing does when none is set', async (t) => {
  const there = { remoteAddress: '192.0.2.7', headers: { host: '192.0.2.1:8090' } }
  const withToken = (value: string) => ({ ...there, headers: { ...there.headers, authorization: value } })
  t.equal(await judge(there, token), 'error-token')
  t.equal(await judge(there, undefined), 'error-token')
  t.equal(await judge(withToken(`Bearer ${token}`), token), 'allowed')
  t.equal(await judge(withToken(`Bearer ${token}x`), token), 'error-token')
  t.equal(await judge(withToken('Bearer '), token), 'error-token')
  t.equal(await judge(withToken(`Basic ${token}`), token), 'error-token')
  t.equal(await judge(withToken('Bearer undefined'), undefined), 'error-token')
  t.equal(
    await judge({ ...here, headers: { ...here.headers, authorization: 'Bearer wrong' } }, token),
    'error-token',
  )
})

t.test('a page in a browser on this machine, or a proxy on it, is not the operator', async (t) => {
  const ask = (headers: Record<string, string>) =>
    judge({ ...here, headers: { ...here.headers, ...headers } }, token)
  t.equal(await ask({ host: 'evil.example:8090' }), 'error-forbidden', 'a name rebound to loopback')
  t.equal(await ask({ host: '127.0.0.1.evil.example' }), 'error-forbidden')
  t.equal(await ask({ host: '' }), 'error-forbidden')
  t.equal(await ask({ origin: 'https://evil.example' }), 'error-forbidden')
  t.equal(await ask({ origin: 'null' }), 'error-forbidden')
  t.equal(await ask({ 'sec-fetch-site': 'cross-site' }), 'error-forbidden')
  t.equal(await ask({ 'sec-fetch-site': 'none' }), 'allowed', 'typed by a person')
  t.equal(await ask({ 'x-forwarded-for': '192.0.2.7' }), 'error-token')
  t.equal(await ask({ forwarded: 'for=192.0.2.7' }), 'error-token')
  t.equal(await ask({ 'x-forwarded-proto': 'https' }), 'error-token')
  t.equal(await ask({ 'cf-connecting-ip': '192.0.2.7' }), 'error-token')
  t.equal(await ask({ host: '203.0.113.5' }), 'error-forbidden', 'the address that the proxy was called by')
  t.equal(await judge({ ...here, httpVersion: '1.0' }, token), 'error-token', 'nginx with a plain proxy_pass')
  t.equal(await judge({ ...here, httpVersion: '1.1' }, token), 'allowed')
})

t.test('another user of this machine needs the token, and is found only when it matters', async (t) => {
  let asked = 0
  const isOperator = async () => {
    asked++
    return false
  }
  t.equal(await judge({ ...here, isOperator }, token), 'error-token')
  t.equal(await judge({ ...here, isOperator }, undefined), 'error-token')
  t.equal(asked, 2)
  const authorization = `Bearer ${token}`
  t.equal(await judge({ ...here, headers: { ...here.headers, authorization }, isOperator }, token), 'allowed')
  t.equal(await judge({ ...here, remoteAddress: '192.0.2.7', isOperator }, token), 'error-token')
  t.equal(asked, 2, 'neither for the token nor for another machine')
})

t.test("an operator's change of an account becomes commands, or a refusal naming the field", async (t) => {
  t.equal(commandOf({}), undefined)
  t.equal(commandOf(undefined), undefined)
  t.match(commandOf({ tier: 'premium', premiumType: 'gift', recycleBin: true }), {
    tier: 'premium',
    premiumType: 'gift',
    recycleBin: true,
  })
  t.same(commandOf({ limits: { contents: null, storage: 5 } }), {
    clearLimits: false,
    clearLimitContents: true,
    clearLimitStorage: false,
    clearEndTime: false,
    limitStorage: 5,
  })
  const refused = (body: unknown) => {
    try {
      return commandOf(body)
    } catch (error) {
      return (error as { status?: string }).status
    }
  }
  t.equal(refused([]), 'error-body')
  t.equal(refused({ tier: 'gold' }), 'error-tier')
  t.equal(refused({ premiumType: '' }), 'error-premiumType')
  t.equal(refused({ recycleBin: 'yes' }), 'error-recycleBin')
  t.equal(refused({ limits: 5 }), 'error-limits')
  t.equal(refused({ limits: { contents: -1 } }), 'error-contents')
  t.match(commandOf({ limits: { contents: 1_000_000 } }), { limitContents: 1_000_000 })
  t.equal(refused({ limits: { contents: 1_000_001 } }), 'error-contents', 'more than one account can carry')
  t.equal(refused({ limits: { storage: 1.5 } }), 'error-storage')
  t.equal(refused({ limits: { traffic: 1 } }), 'error-traffic')
  t.equal(refused({ teir: 'premium' }), 'error-teir', 'a mistyped name is not taken for done')
})

t.test('ready requires a phase and checks that pass; a check that hangs has failed', async (t) => {
  let stuck = false
  const readiness = new Readiness({
    store: async () => {
      if (stuck) throw new Error('not writable')
    },
  })
  t.same(await readiness.report(), { ready: false, checks: { phase: 'starting', store: 'ok' } })
  readiness.phase = 'ready'
  t.equal((await readiness.report()).ready, true)
  stuck = true
  t.same(await readiness.report(), { ready: false, checks: { phase: 'ready', store: 'not writable' } })
  stuck = false
  readiness.phase = 'draining'
  t.equal((await readiness.report()).ready, false)
})
