/** Damaged accounts and their repair, over any store of journals: the real core on a real host. */

import { randomBytes } from 'node:crypto'
import { RoutedAccountClient } from '@holdfast/accounts'
import { plainClient } from '@holdfast/accounts/testing'
import { AccountHost, type RuntimeBounds } from '@holdfast/actor-runtime'
import { plainHost } from '@holdfast/actor-runtime/testing'
import { MemoryBus } from '@holdfast/bus'
import { createAccountStates } from '@holdfast/content-tree'
import { plainSettings } from '@holdfast/content-tree/testing'
import type { JournalRepair, JournalStore, LookupStore } from '@holdfast/journal'
import { type AccountId, Keyring, mintRequestId, silentLog } from '@holdfast/kernel'
import {
  type AccountOperation,
  type AccountReply,
  AddFile,
  blank,
  Change,
  Flush,
  type Item,
} from '@holdfast/wire'
import type { Test } from 'tap'

export type DamagedPart = { row: number } | { page: string } | 'root' | 'facts'

/** A store with access behind its back, while no host runs. */
export interface OfflineStores {
  journal: JournalStore & JournalRepair
  lookups: LookupStore
  damage(account: string, what: DamagedPart, how: 'spoil' | 'remove'): Promise<void>
}

const ring = new Keyring(Buffer.alloc(32, 7))
const states = createAccountStates(plainSettings(ring))

/** Only rows of the test, no checkpoint, and no long wait for an account in quarantine. */
const rowsAlone: Partial<RuntimeBounds> = { effectsIdleMs: 3_600_000, quarantineFirstMs: 3_600_000 }
const checkpointed: Partial<RuntimeBounds> = { ...rowsAlone, checkpointBytesMin: 1 }

class Life {
  readonly account: AccountId
  readonly host: AccountHost
  readonly errors: string[] = []
  readonly #client: RoutedAccountClient

  constructor(place: OfflineStores, account: AccountId, bounds: Partial<RuntimeBounds>) {
    this.account = account
    const bus = new MemoryBus()
    this.host = new AccountHost({
      ...plainHost,
      sweepMs: 2_000,
      hostId: 'one',
      bus,
      journal: place.journal,
      journalRepair: place.journal,
      lookups: place.lookups,
      states,
      mailer: { send: async () => {} },
      bounds,
      log: { ...silentLog, error: (_, message) => void this.errors.push(message) },
    })
    this.host.start()
    this.#client = new RoutedAccountClient({
      ...plainClient,
      bus,
      hostOf: () => 'one',
      local: {
        hostId: 'one',
        take: (request) => this.host.take(request),
      },
    })
  }

  ask(operation: AccountOperation, timeoutMs = 10_000): Promise<AccountReply> {
    const who = { $case: 'operator' as const, value: {} }
    const requestId = mintRequestId(Date.now())
    const request = {
      accountId: this.account,
      requestId,
      caller: { who },
      clientNetwork: undefined,
      clientRequest: undefined,
      traceparent: undefined,
      tierNeeded: '',
      operation,
    }
    return this.#client.call(request, { timeoutMs })
  }

  async folder(name: string, parentFolderId: string): Promise<string> {
    return itemOf(
      await this.ask({
        $case: 'createFolder',
        value: { parentFolderId, name, isPublic: undefined, modTime: undefined },
      }),
    ).id
  }

  async file(name: string, folderId: string): Promise<string> {
    const blob = {
      id: randomBytes(48),
      incarnation: randomBytes(16),
      size: 10,
      crc32: 1,
      placementGroup: 0,
    }
    const value = { ...blank(AddFile), name, blob, folderId }
    return itemOf(await this.ask({ $case: 'addFile', value })).id
  }

  async root(): Promise<string> {
    const { result } = await this.ask({ $case: 'getAccount', value: {} })
    if (result?.$case !== 'account') throw new Error(`no account: ${JSON.stringify(result)}`)
    return result.value.rootFolder
  }

  /** Paths of all that the account holds. */
  async paths(): Promise<string[]> {
    const page = {
      page: 1,
      pageSize: 1000,
      sortField: 1 as const,
      ascending: true,
      contentFilter: '',
      maxDepth: 16,
    }
    const contentId = await this.root()
    const top = itemOf(
      await this.ask({
        $case: 'readContent',
        value: { password: undefined, contentName: undefined, columns: undefined, contentId, ...page },
      }),
    )
    const paths: string[] = []
    const walk = (item: Item, above: string) => {
      for (const child of item.children) {
        paths.push(`${above}${child.name}`)
        walk(child, `${above}${child.name}/`)
      }
    }
    walk(top, '')
    return paths.sort()
  }

  /** Why nothing can be changed, if so: at once. */
  unreadable(): Promise<string | undefined> {
    const value = { name: 'x', isPublic: undefined, modTime: undefined }
    const parentFolderId = ring.ids.content(this.account)
    const asked = this.ask({ $case: 'createFolder', value: { parentFolderId, ...value } }, 5_000)
    return asked.then(
      () => undefined,
      (error: { code: string }) => error.code,
    )
  }

  repair(dryRun = false) {
    return this.host.repair(this.account, { dryRun })
  }

  /** As after a crash, or cleanly. */
  end(how: 'crash' | 'cleanly' = 'crash'): Promise<void> {
    return this.host.close({ drainMs: how === 'crash' ? 0 : 5_000 })
  }
}

function itemOf({ result }: AccountReply): Item {
  if (result?.$case === 'content' && result.value.item) return result.value.item
  throw new Error(`no item: ${JSON.stringify(result)}`)
}

/** Six rows: the account, a/ with one and three, b/ with two. */
async function sixRows(place: OfflineStores, how: 'crash' | 'cleanly' = 'crash', bounds = rowsAlone) {
  const account = ring.ids.account('eu-par')
  const life = new Life(place, account, bounds)
  await life.ask({ $case: 'createAccount', value: { tokenKeyId: 1, email: undefined, isNewId: true } })
  const root = await life.root()
  const a = await life.folder('a', root)
  await life.file('one', a)
  const b = await life.folder('b', root)
  await life.file('two', b)
  await life.file('three', a)
  await life.end(how)
  return { account, a, b, root }
}

const everything = ['a', 'a/one', 'a/three', 'b', 'b/two']

async function rootPages(place: OfflineStores, account: string): Promise<string[]> {
  const names: string[] = []
  for await (const name of place.journal.pageNames(account)) names.push(name)
  return names
}

/** Epochs rise with every look at an account. */
async function headOf({ journal }: OfflineStores, account: string) {
  const { head, chain } = await journal.head(account)
  return { head, chain }
}

type OpenOfflineStores = (t: Test) => Promise<OfflineStores>

export function repairCases(t: Test, open: OpenOfflineStores, kinds: readonly DamagedPart[] = []): void {
  damagedRowCases(t, open)
  lostChangeCases(t, open)
  damagedCheckpointCases(t, open)
  for (const kind of kinds) damagedKindCase(t, open, kind)
  t.test('a healthy account is left as it is, a nonexistent one is not made', async (t) => {
    const place = await open(t)
    const { account } = await sixRows(place)
    const before = await headOf(place, account)
    const life = new Life(place, account, rowsAlone)
    t.match(await life.repair(), { outcome: 'whole', damage: [], lost: [], keptAside: null })
    t.same(await headOf(place, account), before)
    t.same(await life.paths(), everything)
    t.match(await life.repair(), { outcome: 'whole' }, 'also while it is in memory')
    t.same(await life.paths(), everything)
    const other = ring.ids.account('eu-par')
    t.match(await life.host.repair(other, { dryRun: false }), { outcome: 'absent' })
    t.equal((await place.journal.head(other)).head, 0)
    await life.end()
  })
}

function damagedRowCases(t: Test, open: OpenOfflineStores): void {
  for (const how of ['spoil', 'remove'] as const)
    t.test(`a row in the middle is ${how === 'spoil' ? 'damaged' : 'missing'}`, async (t) => {
      const place = await open(t)
      const { account, b } = await sixRows(place)
      await place.damage(account, { row: 4 }, how)
      let life = new Life(place, account, rowsAlone)
      t.equal(await life.unreadable(), 'ACCOUNTS_UNAVAILABLE')
      t.match(life.host.quarantined, [{ account, reason: /row [34]/, tries: 1 }])
      t.ok(life.errors.includes('an account cannot be read and is quarantined'), 'the log says so')

      const dry = await life.repair(true)
      t.match(dry, { outcome: 'repairable', dryRun: true, keptAside: null, checkpointThrough: 0, lastRow: 6 })
      t.ok(
        dry.damage.some((words) => /row(s)? 4/.test(words)),
        dry.damage.join(),
      )
      t.equal(dry.lost.length, 2, dry.lost.join())
      t.match(dry.lost[1], new RegExp(`file .*two.*folder ${b} is lost`))
      const beganMs = performance.now()
      t.equal(await life.unreadable(), 'ACCOUNTS_UNAVAILABLE', 'a dry run changes nothing')
      t.ok(performance.now() - beganMs < 1_000, 'and no request waits for it')
      t.same(await life.paths(), ['a', 'a/one', 'a/three'], 'it is read as a repair would have it')
      const unknown = { contentId: ring.ids.content(account), password: undefined }
      await t.rejects(life.ask({ $case: 'openFile', value: unknown }), { code: 'ACCOUNTS_UNAVAILABLE' })
      await t.rejects(life.ask({ $case: 'reconcile', value: { referenced: [], dryRun: true } as never }), {
        code: 'ACCOUNTS_UNAVAILABLE',
      })

      const waiting = life.repair()
      const asked = life.paths()
      const report = await waiting
      t.match(report, { ...dry, outcome: 'repaired', dryRun: false, keptAside: /^kept-\d+-$/ })
      t.same(await asked, ['a', 'a/one', 'a/three'], 'what came meanwhile waited')
      t.same(life.host.quarantined, [])
      const kept = (await rootPages(place, account)).filter((name) =>
        name.startsWith(String(report.keptAside)),
      )
      t.ok(kept.includes(`${report.keptAside}row-5-0`), 'what was not applied is kept')
      t.equal(kept.includes(`${report.keptAside}row-4-0`), how === 'spoil', 'what is damaged is kept')

      await life.file('four', await life.folder('c', await life.root()))
      await life.end()
      life = new Life(place, account, rowsAlone)
      t.same(await life.paths(), ['a', 'a/one', 'a/three', 'c', 'c/four'], 'and it continues')
      t.match(await life.repair(), { outcome: 'whole', lost: [] })
      await life.end('cleanly')
      const after = await rootPages(place, account)
      t.ok(
        kept.every((name) => after.includes(name)),
        'the originals are not swept',
      )
    })
}

/** What a repair does with the rows around the lost ones. */
function lostChangeCases(t: Test, open: OpenOfflineStores): void {
  t.test('the last row is damaged', async (t) => {
    const place = await open(t)
    const { account } = await sixRows(place)
    await place.damage(account, { row: 6 }, 'spoil')
    const life = new Life(place, account, rowsAlone)
    t.equal(await life.unreadable(), 'ACCOUNTS_UNAVAILABLE')
    t.same(await life.paths(), ['a', 'a/one', 'b', 'b/two'], 'up to the last row that is whole')
    const report = await life.repair()
    t.match(report, { outcome: 'repaired', changesKept: 5, lost: [/row 6/] })
    t.same(await life.paths(), ['a', 'a/one', 'b', 'b/two'])
    await life.end()
  })

  t.test('nothing is removed behind a lost row', async (t) => {
    const place = await open(t)
    const account = ring.ids.account('eu-par')
    let life = new Life(place, account, rowsAlone)
    await life.ask({ $case: 'createAccount', value: { tokenKeyId: 1, email: undefined, isNewId: true } })
    await life.ask({
      $case: 'setAccount',
      value: {
        tier: 'premium',
        premiumType: undefined,
        recycleBin: undefined,
        limitContents: undefined,
        limitStorage: undefined,
      } as never,
    })
    const root = await life.root()
    const a = await life.folder('a', root)
    const file = await life.file('one', a)
    // Row 5 moves the file out of the folder, row 6 deletes that.
    await life.ask({ $case: 'moveContents', value: { contentIds: [file], folderId: root } })
    await life.ask({
      $case: 'deleteContents',
      value: { contentIds: [a], representation: undefined, heldSeconds: undefined },
    })
    await life.file('last', root)
    t.same(await life.paths(), ['last', 'one'])
    await life.end()
    await place.damage(account, { row: 5 }, 'spoil')
    life = new Life(place, account, rowsAlone)
    await life.unreadable()
    const report = await life.repair()
    t.match(report.lost, [/row 5/, new RegExp(`row 6: a deletion of 1 contents: ${a}`)])
    t.same(await life.paths(), ['a', 'a/one', 'last'])
    await life.end()
  })

  t.test('a change that cannot be applied is skipped', async (t) => {
    const place = await open(t)
    const { account, root } = await sixRows(place)
    const ownership = await place.journal.acquire(account, { owner: 'bug' })
    const change = (event: NonNullable<Change['events'][number]['event']>) => ({
      ...blank(Change),
      timeMs: Date.now(),
      events: [{ event }],
    })
    const rowOf = (one: Change) => Flush.encode({ changes: [one], paged: [] }).finish()
    const absent = ring.ids.content(account)
    const time = 1_700_000_000
    const rename = (id: string, value: string) =>
      change({ $case: 'attributeSet', value: { id, attribute: { $case: 'name', value }, time } })
    await place.journal.append(ownership, rowOf(rename(absent, 'x')))
    await place.journal.append(ownership, rowOf(rename(root, 'renamed')))
    const life = new Life(place, account, rowsAlone)
    t.equal(await life.unreadable(), 'ACCOUNTS_UNAVAILABLE')
    const report = await life.repair()
    t.match(report, { outcome: 'repaired', changesKept: 6, lost: [/row 7: a change cannot be applied/] })
    t.same(await life.paths(), everything)
    await life.end()
  })
}

function damagedCheckpointCases(t: Test, open: OpenOfflineStores): void {
  t.test('a damaged checkpoint whose rows are still there costs nothing', async (t) => {
    const place = await open(t)
    const { trim } = place.journal
    place.journal.trim = async () => {}
    const { account } = await sixRows(place, 'cleanly', checkpointed)
    place.journal.trim = trim.bind(place.journal)
    const [page = ''] = await rootPages(place, account)
    await place.damage(account, { page }, 'spoil')
    const life = new Life(place, account, rowsAlone)
    t.equal(await life.unreadable(), 'ACCOUNTS_UNAVAILABLE')
    const report = await life.repair()
    t.match(report, { outcome: 'repaired', checkpointThrough: 0, lost: [] })
    t.ok(
      report.damage.some((words) => words.includes(`page ${page}`)),
      report.damage.join(),
    )
    t.same(await life.paths(), everything)
    await life.end()
  })

  for (const how of ['spoil', 'remove'] as const)
    t.test(
      `with a checkpoint that is ${how === 'spoil' ? 'damaged' : 'gone'} and no rows nothing is invented`,
      async (t) => {
        const place = await open(t)
        const { account } = await sixRows(place, 'cleanly', checkpointed)
        const pages = await rootPages(place, account)
        await place.damage(account, { page: pages[0] as string }, how)
        const life = new Life(place, account, rowsAlone)
        t.equal(await life.unreadable(), 'ACCOUNTS_UNAVAILABLE')
        const before = await headOf(place, account)
        t.match(await life.repair(), { outcome: 'lost', keptAside: null, lost: [/all of it/] })
        t.same(await headOf(place, account), before, 'nothing was touched')
        t.equal(await life.unreadable(), 'ACCOUNTS_UNAVAILABLE')
        await life.end()
      },
    )

  t.test('rows behind a whole checkpoint', async (t) => {
    const place = await open(t)
    const { account } = await sixRows(place, 'cleanly', checkpointed)
    let life = new Life(place, account, rowsAlone)
    const root = await life.root()
    for (const name of ['c', 'd', 'e']) await life.folder(name, root)
    const { head } = await place.journal.head(account)
    await life.end()
    await place.damage(account, { row: head - 1 }, 'spoil')
    life = new Life(place, account, rowsAlone)
    await life.unreadable()
    const report = await life.repair()
    t.match(report, { outcome: 'repaired', lost: [new RegExp(`row ${head - 1}`)] })
    t.ok(report.checkpointThrough > 0)
    t.same(await life.paths(), [...everything, 'c', 'e'])
    await life.end()
  })
}

function damagedKindCase(t: Test, open: OpenOfflineStores, kind: DamagedPart): void {
  t.test(`damaged ${String(kind)}`, async (t) => {
    const place = await open(t)
    const { trim } = place.journal
    place.journal.trim = async () => {}
    const { account } = await sixRows(place, 'cleanly', kind === 'root' ? checkpointed : rowsAlone)
    place.journal.trim = trim.bind(place.journal)
    await place.damage(account, kind, 'spoil')
    const life = new Life(place, account, rowsAlone)
    t.equal(await life.unreadable(), 'ACCOUNTS_UNAVAILABLE')
    t.match(await life.repair(), { outcome: 'repaired', lost: [] })
    t.same(await life.paths(), everything)
    await life.end()
  })
}
