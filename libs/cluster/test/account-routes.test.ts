import type { AccountId, RegionCode } from '@holdfast/kernel'
import t from 'tap'
import { AccountRoutes } from '../src/accounts/account-routes.ts'

const account = 'account' as AccountId
const minuteMs = 60_000

function world(replicaReadsMs: number) {
  const time = { ms: 0 }
  const hosts = new Map<RegionCode, string>([
    ['eu-par', 'home'],
    ['na-nyc', 'keeper'],
  ])
  let notify = () => {}
  const beats = () => [...hosts].map(([region, id]) => ({ id, region, ready: true, roles: ['actor-host'] }))
  const routes = new AccountRoutes({
    membership: {
      beats,
      self: () => ({ id: 'frontend' }),
      onChange: (listener: () => void) => {
        notify = listener
        return { close() {} }
      },
    } as unknown as ConstructorParameters<typeof AccountRoutes>[0]['membership'],
    regions: {
      homeOf: () => ({ serving: 'eu-par', term: 1, handedOver: false }),
      keepersOf: () => ['eu-par', 'na-nyc'],
    },
    ids: { birthRegion: () => 'eu-par' },
    clock: { now: () => time.ms, monotonic: () => time.ms },
    replicaReadsMs,
  })
  const lose = () => {
    hosts.delete('eu-par')
    notify()
  }
  const comeBack = () => {
    hosts.set('eu-par', 'home')
    notify()
  }
  return { time, routes, lose, comeBack }
}

t.test('a copy answers for a lost home until its time is over, counted from the loss', async (t) => {
  const { time, routes, lose, comeBack } = world(10 * minuteMs)
  t.equal(routes.hostOf(account), 'home')
  t.equal(routes.replicaHostOf(account), undefined)
  lose()
  t.equal(routes.replicaHostOf(account), 'keeper')
  time.ms += 10 * minuteMs - 1
  t.equal(routes.replicaHostOf(account), 'keeper')
  time.ms += 1
  t.equal(routes.replicaHostOf(account), undefined, 'its copy is too old')
  comeBack()
  t.equal(routes.hostOf(account), 'home')
  lose()
  time.ms += minuteMs
  t.equal(routes.replicaHostOf(account), 'keeper', 'another loss, another time')
})

t.test('a loss counts from when it is noticed, not from the first download', async (t) => {
  const { time, routes, lose } = world(10 * minuteMs)
  routes.hostOf(account)
  lose()
  time.ms += 11 * minuteMs
  t.equal(routes.replicaHostOf(account), undefined)
})

t.test('the operator can switch copies off', async (t) => {
  const { routes, lose } = world(0)
  routes.hostOf(account)
  lose()
  t.equal(routes.replicaHostOf(account), undefined)
})
