import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { Placement } from '../src/index.ts'

const accounts = fc.array(fc.uuid(), { minLength: 1, maxLength: 50 })
const hosts = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 12 })

t.test('the order of hosts, and naming one twice, changes nothing', async () => {
  fc.assert(
    fc.property(hosts, accounts, (hosts, accounts) => {
      const placement = new Placement(hosts)
      const other = new Placement([...hosts].reverse().concat(hosts))
      return accounts.every(
        (account) =>
          placement.hostOf(account) === other.hostOf(account) &&
          placement.ranked(account).join('\0') === other.ranked(account).join('\0'),
      )
    }),
  )
})

t.test('when a host goes only its accounts move, each to its second choice', async () => {
  fc.assert(
    fc.property(hosts, accounts, fc.nat(), (hosts, accounts, pick) => {
      const gone = hosts[pick % hosts.length] as string
      const before = new Placement(hosts)
      const after = new Placement(hosts.filter((host) => host !== gone))
      return accounts.every((account) => {
        const [first, second] = before.ranked(account, { limit: 2 })
        return after.hostOf(account) === (first === gone ? second : first)
      })
    }),
  )
})

t.test('when a host comes accounts move only to it', async () => {
  fc.assert(
    fc.property(hosts, accounts, fc.string({ minLength: 13 }), (hosts, accounts, fresh) => {
      const before = new Placement(hosts)
      const after = new Placement([...hosts, fresh])
      return accounts.every((account) => {
        const now = after.hostOf(account)
        return now === fresh || now === before.hostOf(account)
      })
    }),
  )
})

t.test("the ranking holds every host once and begins with the account's host", async () => {
  fc.assert(
    fc.property(hosts, fc.uuid(), fc.nat({ max: 15 }), (hosts, account, limit) => {
      const placement = new Placement(hosts)
      const ranked = placement.ranked(account)
      return (
        ranked[0] === placement.hostOf(account) &&
        [...ranked].sort().join('\0') === [...hosts].sort().join('\0') &&
        placement.ranked(account, { limit }).join('\0') === ranked.slice(0, limit).join('\0')
      )
    }),
  )
})

t.test('accounts spread evenly, also over hosts whose names differ in one character', async (t) => {
  const cases = [
    Array.from({ length: 2 }, (_, at) => `host-${at}`),
    Array.from({ length: 5 }, (_, at) => `eu-par-${at}`),
    Array.from({ length: 40 }, () => randomUUID()),
    Array.from({ length: 100 }, (_, at) => `actor-host-${at}.eu-par.example`),
  ]
  for (const hosts of cases) {
    const placement = new Placement(hosts)
    const counts = new Map(hosts.map((host) => [host, 0]))
    const each = 1_000
    for (let count = 0; count < each * hosts.length; count++) {
      const host = placement.hostOf(randomUUID()) ?? ''
      counts.set(host, (counts.get(host) ?? 0) + 1)
    }
    // Binomial: the standard deviation is below √1000 = 32; six of them are passed once in 500
    // million counts.
    const spread = Math.max(...[...counts.values()].map((count) => Math.abs(count - each)))
    t.ok(spread < 190, `${hosts.length} hosts: ${spread} from ${each} at most`)
  }
})

t.test('the accounts of a lost host are spread over all others', async (t) => {
  const hosts = Array.from({ length: 10 }, (_, at) => `host-${at}`)
  const before = new Placement(hosts)
  const after = new Placement(hosts.slice(1))
  const heirs = new Map<string, number>()
  for (let count = 0; count < 20_000; count++) {
    const account = randomUUID()
    if (before.hostOf(account) !== 'host-0') continue
    const heir = after.hostOf(account) ?? ''
    heirs.set(heir, (heirs.get(heir) ?? 0) + 1)
  }
  t.equal(heirs.size, 9)
  t.ok(Math.max(...heirs.values()) < 330, 'no heir gets one and a half times the 222 of its share')
})

t.test('without hosts an account has none, with one it has that one', async (t) => {
  t.equal(new Placement([]).hostOf('account'), undefined)
  t.same(new Placement([]).ranked('account'), [])
  t.equal(new Placement(['only']).hostOf('account'), 'only')
})

t.test('the placement does not change between versions', async (t) => {
  const placement = new Placement(['host-a', 'host-b', 'host-c', 'host-d'])
  const accounts = ['9d70d692-95fd-4ce5-a2fb-a044868fa37a', '88e27116-eaf8-42ec-b4d0-a1ab75d18d85', '']
  t.same(
    accounts.map((account) =>
      placement
        .ranked(account)
        .map((host) => host.slice(-1))
        .join(''),
    ),
    ['dabc', 'bacd', 'cdba'],
  )
})
