/**
 * Acknowledged changes reach the second region, however long it was unavailable and however quiet
 * the account is.
 */
import { silentLog } from '@holdfast/kernel'
import t from 'tap'
import { Arrivals } from '../src/queues/arrivals.ts'
import { blob } from './tiny-core.ts'
import { ManualTime, settled, World } from './world.ts'

const idleMs = 60_000
const sendRoutes = async () => {}
const away = { code: 'UNAVAILABLE' as const, times: Number.POSITIVE_INFINITY }

function start() {
  const world = new World({ exclusive: false, ordered: false })
  const time = new ManualTime()
  const options = { clock: time, timers: time, journalBackup: world.journal }
  const ownerOf = async (account = world.account as string) =>
    (await world.journal.acquire(account, { owner: 'test' })).previousOwner
  return { world, time, options, ownerOf }
}

t.test('an account is released once the second region has everything, without a request', async (t) => {
  const { world, time, options, ownerOf } = start()
  t.teardown(() => world.close())
  const host = world.host('one', options)
  const heal = world.medium.fail('backUp', away)
  await world.create()
  await time.advance(3 * idleMs)
  t.equal(host.activeAccounts, 0, 'it does not stay in memory for that')
  t.equal((await world.keys('active/')).length, 1, 'and is found after a crash')
  t.equal(host.backupLag.accounts, 1)
  t.ok(host.backupLag.ms > 2 * idleMs)
  const epoch = async () => (await world.journal.head(world.account)).epoch
  const before = await epoch()
  await time.advance(10 * idleMs)
  t.equal(await epoch(), before, 'it is not activated without need')

  heal()
  await time.advance(2 * idleMs)
  t.strictSame(host.backupLag, { accounts: 0, ms: 0 })
  t.strictSame(await world.keys('active/'), [])
  t.equal(await ownerOf(), undefined, 'released')
})

t.test('the next host sends the changes that a dead host left, without a request', async (t) => {
  const { world, time, options, ownerOf } = start()
  t.teardown(() => world.close())
  const heal = world.medium.fail('backUp', away)
  const one = world.host('one', options)
  await world.create()
  await time.advance(2 * idleMs)
  world.kill(one)
  const asked: string[] = []
  const journalBackup = {
    backUp: (account: string, onLacking: () => Promise<void>) => {
      asked.push(account)
      return world.journal.backUp(account, onLacking)
    },
  }
  const two = world.host('two', { ...options, journalBackup })
  await time.advance(3 * idleMs)
  t.equal(two.backupLag.accounts, 1, 'found by its row')
  heal()
  asked.length = 0
  await time.advance(2 * idleMs)
  t.ok(asked.includes(world.account))
  t.strictSame(two.backupLag, { accounts: 0, ms: 0 })
  t.equal(await ownerOf(), undefined)
})

t.test('where a part of the journal did not arrive, the routes are sent as well', async (t) => {
  const { world, time, options } = start()
  t.teardown(() => world.close())
  let lacks = true
  let refuses = true
  const journalBackup = {
    backUp: async (_: string, onLacking: () => Promise<void>) => {
      if (refuses) throw new Error('away')
      if (!lacks) return { rows: 0, pages: 0 }
      await onLacking()
      lacks = false
      return { rows: 1, pages: 0 }
    },
  }
  const host = world.host('one', { ...options, journalBackup })
  await world.create()
  for (const name of ['a', 'many:200', 'b']) await world.folder(name)
  const routes = await Array.fromAsync(world.lookups.scan('code/'))
  t.ok(routes.length > 3)
  const lose = () => world.lookups.write(routes.map(({ key }) => ({ delete: key })))
  const present = () => Array.fromAsync(world.lookups.scan('code/'))

  await lose()
  refuses = false
  await time.advance(idleMs / 2 + 20_000)
  t.equal(host.activeAccounts, 1)
  t.strictSame(await present(), routes, 'by the pass over waiting accounts')

  await lose()
  lacks = true
  await world.folder('c')
  await time.advance(5 * idleMs)
  t.equal(host.activeAccounts, 0)
  t.strictSame(await present(), routes, 'when it leaves memory')

  refuses = true
  await world.folder('d')
  await time.advance(5 * idleMs)
  t.equal(host.activeAccounts, 0)
  await lose()
  lacks = true
  refuses = false
  await time.advance(2 * idleMs)
  t.strictSame(await present(), routes, 'it comes back into memory for that')
  t.strictSame(host.backupLag, { accounts: 0, ms: 0 })
})

t.test('a busy account is checked as well, and changes meanwhile do not count as arrived', async (t) => {
  const { world, time, options } = start()
  t.teardown(() => world.close())
  const host = world.host('one', options)
  await world.create()
  await time.advance(20_000)
  t.equal(host.backupLag.accounts, 1)
  const compared = world.medium.hold('backUp')
  const passing = time.advance(30_000)
  await compared.reached
  await world.folder('meanwhile')
  compared.release()
  await passing
  t.equal(host.activeAccounts, 1)
  t.equal(host.backupLag.accounts, 1, 'the state of that is unknown')
  t.ok(host.backupLag.ms < 40_000)
  for (let at = 0; at < 20; at++) {
    await world.folder(`f${at}`)
    await time.advance(10_000)
    t.ok(host.backupLag.ms < 60_000)
  }
  await time.advance(3 * idleMs)
  t.strictSame(host.backupLag, { accounts: 0, ms: 0 })
})

t.test('an account that was only read sends no request to the second region', async (t) => {
  const { world, time, options, ownerOf } = start()
  t.teardown(() => world.close())
  world.host('one', options)
  await world.create()
  await time.advance(2 * idleMs)
  world.medium.fail('backUp', away)
  await world.names()
  await time.advance(2 * idleMs)
  t.equal(await ownerOf(), undefined)
  t.notOk(world.warnings.some((message) => message.startsWith('the second region')))
})

t.test(
  'pages that could not be deleted keep an account from a clean end, and the next activation sweeps them',
  async (t) => {
    const { world, time, options, ownerOf } = start()
    t.teardown(() => world.close())
    const bounds = { checkpointBytesMin: 200 }
    world.host('one', { ...options, bounds })
    await world.create()
    const heal = world.medium.fail('deletePages', away)
    const add = (at: number) =>
      world.ask({
        $case: 'addFile',
        value: {
          name: `f${at}`,
          mimetype: '',
          blob: blob(at),
          createAccount: undefined,
          folderId: undefined,
          modTime: undefined,
        },
      })
    for (let at = 0; at < 40; at++) {
      await add(at)
      await settled()
    }
    const pages = async () => (await Array.fromAsync(world.journal.pageNames(world.account))).length
    t.ok((await pages()) > 1, 'those of earlier checkpoints stay')
    await time.advance(2 * idleMs)
    t.equal((await world.keys('active/')).length, 1)
    heal()
    await time.advance(3 * idleMs)
    t.equal(await pages(), 1)
    t.strictSame(await world.keys('active/'), [])
    t.equal(await ownerOf(), undefined)
  },
)

t.test('a second region that failed is not asked for a while; the longest waiting come first', async (t) => {
  const time = new ManualTime()
  const asked: string[] = []
  let reachable = false
  const backup = {
    backUp: async (account: string) => {
      asked.push(account)
      if (!reachable) throw new Error('away')
      return { rows: 1, pages: 0 }
    },
  }
  const arrivals = new Arrivals({ backup, clock: time, log: silentLog, accountsMax: 3 })
  for (const account of ['a', 'b', 'c', 'd']) {
    arrivals.changed(account)
    await time.advance(1_000)
  }
  arrivals.changed('a')
  t.strictSame(arrivals.lag, { accounts: 3, ms: 4_000 }, 'bounded, and the oldest counts')
  const done: string[] = []
  const pass = (ours = ['a', 'b', 'c']) =>
    arrivals.pass({
      isOurs: (account) => ours.includes(account),
      sendRoutes,
      arrived: async (one) => void done.push(one),
    })
  await pass()
  t.strictSame(asked, [], 'recent changes are in transit')
  await time.advance(40_000)
  for (let count = 0; count < 4; count++) t.notOk(await arrivals.confirm('d', sendRoutes))
  await pass()
  t.strictSame(asked.splice(0), ['d', 'd', 'd'], 'three questions')
  reachable = true
  await time.advance(5_000)
  await pass(['a', 'c'])
  t.strictSame(asked, ['a', 'c'])
  t.strictSame(done, ['a', 'c'])
  t.strictSame(arrivals.lag, { accounts: 0, ms: 0 }, "another host's are forgotten")
})

t.test('an account that fails alone blocks no other', async (t) => {
  const time = new ManualTime()
  const asked: string[] = []
  const backup = {
    backUp: async (account: string) => {
      asked.push(account)
      if (account === 'bad') throw new Error('does not accept it')
      return { rows: 0, pages: 0 }
    },
  }
  const arrivals = new Arrivals({ backup, clock: time, log: silentLog, accountsMax: 10 })
  for (const account of ['bad', 'a', 'b', 'c']) arrivals.changed(account)
  await time.advance(40_000)
  const pass = () => arrivals.pass({ isOurs: () => true, sendRoutes, arrived: async () => {} })
  await pass()
  await pass()
  t.strictSame(asked, ['bad', 'a', 'b', 'c'])
  t.strictSame(arrivals.lag, { accounts: 1, ms: 40_000 })
  await time.advance(30_000)
  await pass()
  t.strictSame(asked.slice(4), ['bad'], 'and is retried')
})
