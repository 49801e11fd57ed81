/** The table of routes in the page of calls is what the host registers when it has all its deps. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import type { AccountClient } from '@holdfast/accounts'
import { createRateLimits } from '@holdfast/http-kit'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { backgroundTimers, Keyring, systemClock } from '@holdfast/kernel'
import { BlockLists, Reports, TransferLog } from '@holdfast/moderation'
import type { FastifyInstance, RouteOptions } from 'fastify'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t from 'tap'
import { Readiness } from '../src/health/readiness.ts'
import { createAdminHost } from '../src/host.ts'

t.test('the page of calls has every route of the host, and no other', async (t) => {
  const registered = await registeredRoutes()
  t.ok(registered.length > 40, 'the host has all its parts')
  t.strictSame(documentedRoutes(), registered)
})

t.test('the metrics token opens /metrics to every caller, and nothing else', async (t) => {
  const { routes, host } = await hostAndRoutes()
  t.teardown(() => host.close())
  const ask = async (route: string, token: string, more = '') => {
    const [method = '', path = ''] = route.split(' ')
    return host.inject({
      method: method as 'GET',
      url: path.replaceAll(':', 'x') + more,
      remoteAddress: '192.0.2.1',
      headers: { authorization: `Bearer ${token}` },
    })
  }
  for (const token of [tokens.metrics, tokens.admin])
    t.equal((await ask('GET /metrics', token)).statusCode, 200)
  t.equal((await ask('GET /metrics', 'a-wrong-token-0123456789')).statusCode, 401)
  t.equal((await ask('GET /admin/settings', tokens.admin)).statusCode, 200)
  const others = routes.filter((route) => !/ \/(metrics|livez|readyz)$/.test(route))
  t.equal(others.length, routes.length - 3)
  for (const route of others) {
    const { statusCode } = await ask(route, tokens.metrics)
    t.ok(statusCode === 401 || statusCode === 403, `${route}: ${statusCode}`)
  }
  t.notOk((await ask('GET /readyz', tokens.metrics, '?verbose')).json().data?.checks)
  t.ok((await ask('GET /readyz', tokens.admin, '?verbose')).json().data.checks)
})

t.test('a process without access to accounts says so, and not that there is no such account', async (t) => {
  const host = await hostOfAll({ accounts: false })
  t.teardown(() => host.close())
  const headers = { authorization: `Bearer ${tokens.admin}` }
  const calls = [
    'GET /admin/accounts/ann@example.org',
    'POST /admin/accounts',
    'POST /admin/accounts/ann@example.org/repair',
    'POST /admin/accounts/ann@example.org/delete',
    'POST /admin/invitations',
    'GET /admin/contents?name=Ab3dEf9h',
    'GET /admin/contents/find?text=invoice',
  ]
  for (const call of calls) {
    const [method, url = ''] = call.split(' ')
    const answer = await host.inject({ method: method as 'GET', url, headers, remoteAddress: '192.0.2.1' })
    t.strictSame([answer.statusCode, answer.json().status], [400, 'error-noAccounts'], call)
  }
})

const tokens = { admin: 'operator-secret-0123456789', metrics: 'metrics-secret-0123456789' }

/** As `POST /admin/accounts/:/repair`. The page for browsers counts as one. */
async function registeredRoutes(): Promise<string[]> {
  const { routes, host } = await hostAndRoutes()
  await host.close()
  return routes
}

async function hostAndRoutes(): Promise<{ routes: string[]; host: FastifyInstance }> {
  const found = new Set<string>()
  const onRoute = ({ method, url }: RouteOptions) => {
    const path = url.startsWith('/moderation') ? '/moderation' : url.replace(/:\w+/g, ':')
    if (path === '/moderation') found.add(`GET ${path}`)
    else for (const each of [method].flat()) if (each !== 'HEAD') found.add(`${each} ${path}`)
  }
  // Routes of the host itself are there as soon as it is made.
  const watch = (message: unknown) =>
    (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', onRoute)
  subscribe('fastify.initialization', watch)
  const host = await hostOfAll()
  unsubscribe('fastify.initialization', watch)
  await host.ready()
  return { routes: [...found].sort(), host }
}

/**
 * First cells of the table: a method holds until the next one, `<name>` is a parameter, and `…`
 * stands for the path before it, without its last segment.
 */
function documentedRoutes(): string[] {
  const text = readFileSync(new URL('../CALLS.md', import.meta.url), 'utf8')
  const cells = [...text.matchAll(/^\| (`[A-Z]+ \/.*?) \|/gm)].map(([, cell = '']) => cell)
  return cells
    .flatMap((cell) => {
      let method = ''
      let before = ''
      return [...cell.matchAll(/`(?:([A-Z]+) )?([^`?]+)[^`]*`/g)].map(([, verb, path = '']) => {
        method = verb ?? method
        before = path.replace('…', before.slice(0, before.lastIndexOf('/')))
        return `${method} ${before.replace(/<[^>]+>/g, ':')}`
      })
    })
    .sort()
}

async function hostOfAll(has: { accounts: boolean } = { accounts: true }): Promise<FastifyInstance> {
  const unasked = async (): Promise<never> => {
    throw new Error('no route is called')
  }
  const none = async function* () {}
  const clock = systemClock
  const lookups = new MemoryLookupStore()
  const keyring = new Keyring(Buffer.alloc(32, 7))
  const lists = await BlockLists.open({ lookups, clock, onChange: undefined })
  const accounts: AccountClient = { call: unasked }
  return createAdminHost({
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
    rateLimits: createRateLimits({ mode: 'off', clock }),
    readiness: new Readiness({}),
    adminToken: tokens.admin,
    metricsToken: tokens.metrics,
    uidOf: async () => 0,
    connections: undefined,
    tls: undefined,
    operations: {
      status: unasked,
      collect: unasked,
      reconcile: unasked,
      settings: () => [],
      bans: () => [],
      liftBan: () => false,
      acceptClock: unasked,
      backupJobs: {
        backUp: () => undefined,
        verify: () => undefined,
        faultOfTarget: async () => undefined,
        importDirectory: () => undefined,
        exportAccount: () => undefined,
        run: undefined,
      },
      cluster: {
        evacuate: unasked,
        returnHome: unasked,
        drainNode: unasked,
        removeNode: unasked,
        returnNode: unasked,
        backups: { backUp: () => undefined, restore: () => undefined, run: undefined },
      },
    },
    moderation: {
      lists,
      transfers: new TransferLog({
        lookups,
        clock,
        timers: backgroundTimers,
        days: { upload: 0, download: 0 },
        rowsPerHourMax: 1,
        networkOf: (address) => address,
        isClockOff: () => false,
        onFault: () => {},
      }),
      reports: new Reports({ lookups, clock, acts: lists.acts, networkOf: (address) => address }),
    },
    accounts: has.accounts
      ? {
          accounts,
          clock,
          lookups,
          ids: keyring.ids,
          keyring,
          region: 'eu-par',
          tokenKeyId: 1,
          signUpDomains: [],
          repair: unasked,
          listAccounts: none,
          listReferences: none,
          questionsPerSecond: 1,
        }
      : undefined,
  })
}
