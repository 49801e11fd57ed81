/** The runtime with the parts of `npm start`: the real core, journals in LevelDB, real time. */

import { randomBytes, scryptSync } from 'node:crypto'
import { RoutedAccountClient } from '@holdfast/accounts'
import { plainClient } from '@holdfast/accounts/testing'
import { MemoryBus } from '@holdfast/bus'
import { type AccountStates, createAccountStates } from '@holdfast/content-tree'
import { plainSettings } from '@holdfast/content-tree/testing'
import { LevelMetadataStore } from '@holdfast/journal-level'
import { testMetadataStore } from '@holdfast/journal-level/testing'
import { Keyring, mintRequestId, silentLog } from '@holdfast/kernel'
import {
  type AccountOperation,
  type AccountReply,
  type AccountRequest,
  type Blob,
  blank,
  CopyContents,
  type Item,
  ManifestEntry,
} from '@holdfast/wire'
import t from 'tap'
import { wrapped } from '../../../test/sim/observed-states.ts'
import type { RuntimeBounds } from '../src/bounds.ts'
import { AccountHost } from '../src/index.ts'
import { plainHost } from '../src/testing.ts'

const ring = new Keyring(Buffer.alloc(32, 7))
const states = createAccountStates(plainSettings(ring))

type CallerCase = NonNullable<NonNullable<AccountRequest['caller']>['who']>

/** One life of the process. */
async function live(
  path: string,
  bounds: Partial<RuntimeBounds> = { checkpointBytesMin: 4096 },
  core = states,
) {
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  const bus = new MemoryBus()
  const faults: object[] = []
  const host = new AccountHost({
    ...plainHost,
    hostId: 'one',
    bus,
    journal: store.journals,
    lookups: store.lookups,
    states: core,
    mailer: { send: async () => {} },
    sweepMs: 100,
    bounds,
    log: {
      ...silentLog,
      warn: (fields) => void faults.push(fields),
      error: (fields) => void faults.push(fields),
    },
  })
  host.start()
  const client = new RoutedAccountClient({
    ...plainClient,
    bus,
    hostOf: () => 'one',
    local: { hostId: 'one', take: (request) => host.take(request) },
  })
  return {
    store,
    host,
    faults,
    ask(
      account: string,
      operation: AccountOperation,
      who: CallerCase = { $case: 'operator', value: {} },
    ): Promise<AccountReply> {
      const requestId = mintRequestId(Date.now())
      return client.call(
        {
          accountId: account,
          requestId,
          caller: { who },
          clientNetwork: undefined,
          clientRequest: undefined,
          traceparent: undefined,
          tierNeeded: '',
          operation,
        },
        {},
      )
    },
    async end({ cleanly }: { cleanly: boolean }) {
      await host.close({ drainMs: cleanly ? 5000 : 0 })
      await store.close()
    },
  }
}

function blob(): Blob {
  return { id: randomBytes(48), incarnation: randomBytes(16), size: 1000, crc32: 1, placementGroup: 0 }
}

function upload(name: string, folderId?: string): AccountOperation {
  return {
    $case: 'addFile',
    value: {
      modTime: undefined,
      name,
      mimetype: 'text/plain',
      blob: blob(),
      folderId,
      createAccount: folderId === undefined ? { tokenKeyId: 1, email: undefined, isNewId: true } : undefined,
    },
  }
}

function reading(contentId: string, password?: string): AccountOperation {
  const page = {
    page: 1,
    pageSize: 1000,
    sortField: 1 as const,
    ascending: true,
    contentFilter: '',
    maxDepth: 16,
  }
  return {
    $case: 'readContent',
    value: {
      password: undefined,
      contentName: undefined,
      columns: undefined,
      contentId,
      ...page,
      ...(password === undefined ? {} : { password }),
    },
  }
}

function itemOf(reply: AccountReply): Item {
  if (reply.result?.$case === 'content' && reply.result.value.item) return reply.result.value.item
  throw new Error(`no item: ${JSON.stringify(reply)}`)
}

async function rootOf(life: Awaited<ReturnType<typeof live>>, account: string): Promise<Item> {
  const { result } = await life.ask(account, { $case: 'getAccount', value: {} })
  if (result?.$case !== 'account') throw new Error(`no account: ${JSON.stringify(result)}`)
  return itemOf(await life.ask(account, reading(result.value.rootFolder)))
}

t.test(
  'guests upload, many at once; what was acknowledged is there after a crash, and after a clean stop',
  async (t) => {
    const path = t.testdir()
    let life = await live(path)
    const accounts = Array.from({ length: 8 }, () => ring.ids.account('eu-par'))
    const folders = await Promise.all(
      accounts.map(async (account) => String(itemOf(await life.ask(account, upload('first'))).parentFolder)),
    )
    await Promise.all(
      accounts.flatMap((account, at) =>
        Array.from({ length: 40 }, (_, n) => life.ask(account, upload(`f${n}`, folders[at] as string))),
      ),
    )
    const trees = await Promise.all(accounts.map((account) => rootOf(life, account)))
    t.ok(trees.every((root) => root.children[0]?.children.length === 41))
    for (const cleanly of [false, true, false]) {
      await life.end({ cleanly })
      life = await live(path)
      t.strictSame(await Promise.all(accounts.map((account) => rootOf(life, account))), trees)
    }
    const [first] = trees
    const [folder] = first?.children ?? []
    const found = await life.ask(accounts[0] as string, {
      $case: 'findCode',
      value: { code: folder?.code ?? '' },
    })
    t.match(found.result, { $case: 'code', value: { contentId: folder?.id } })
    let routes = 0
    for await (const _ of life.store.lookups.scan('code/')) routes++
    t.equal(routes, 8, 'one for each block')
    let references = 0
    for await (const _ of life.store.lookups.scan('ref/')) references++
    t.equal(references, 8 * 41)
    t.strictSame(life.faults, [])
    await life.end({ cleanly: true })
  },
)

t.test(
  'deletions return references, copies share them, an expired folder is deleted by itself',
  async (t) => {
    const life = await live(t.testdir())
    const account = ring.ids.account('eu-par')
    const file = itemOf(await life.ask(account, upload('f')))
    const folderId = String(file.parentFolder)
    await life.ask(account, {
      $case: 'copyContents',
      value: {
        sources: [{ contentId: file.id, manifest: undefined }],
        folderId,
        skipUnreadable: false,
        password: undefined,
      },
    })
    const references = async () => {
      const keys: string[] = []
      for await (const { key } of life.store.lookups.scan('ref/')) keys.push(key)
      return keys.length
    }
    t.equal(await references(), 1)
    await life.ask(account, {
      $case: 'deleteContents',
      value: { contentIds: [file.id], representation: undefined, heldSeconds: undefined },
    })
    t.equal(await references(), 1)
    const expiry = Math.floor(Date.now() / 1000) + 2
    const attribute = { $case: 'expiry' as const, value: { expiry, deleteAfterExpiry: false } }
    await life.ask(account, { $case: 'updateContent', value: { contentId: folderId, attribute } })
    while ((await references()) > 0) await new Promise((resolve) => setTimeout(resolve, 50))
    t.strictSame((await rootOf(life, account)).children, [])
    t.strictSame(life.faults, [])
    await life.end({ cleanly: true })
  },
)

t.test('an account leaves with a checkpoint when a short tail changed much', async (t) => {
  const path = t.testdir()
  let life = await live(path, {})
  const account = ring.ids.account('eu-par')
  const folderId = String(itemOf(await life.ask(account, upload('first'))).parentFolder)
  const sources = [{ contentId: folderId, manifest: undefined }]
  const doubling: AccountOperation = {
    $case: 'copyContents',
    value: { ...blank(CopyContents), sources, folderId },
  }
  for (let times = 0; times < 10; times++) await life.ask(account, doubling)
  const root = await rootOf(life, account)
  await life.end({ cleanly: true })
  life = await live(path)
  const ownership = await life.store.journals.acquire(account, { owner: 'test' })
  t.not(ownership.root, undefined)
  await life.store.journals.release(ownership)
  t.strictSame(await rootOf(life, account), root)
  await life.end({ cleanly: true })
})

t.test('an account of many contents leaves memory and is back at once', async (t) => {
  const path = t.testdir()
  let life = await live(path)
  const account = ring.ids.account('eu-par')
  const folderId = String(itemOf(await life.ask(account, upload('first'))).parentFolder)
  await Promise.all(Array.from({ length: 99 }, (_, n) => life.ask(account, upload(`f${n}`, folderId))))
  const { result } = await life.ask(account, { $case: 'getAccount', value: {} })
  const root = result?.$case === 'account' ? result.value.rootFolder : ''
  for (let copies = 0; copies < 99; copies++) {
    const sources = [{ contentId: folderId, manifest: undefined }]
    await life.ask(account, {
      $case: 'copyContents',
      value: { sources, folderId: root, skipUnreadable: false, password: undefined },
    })
  }
  const before = await life.ask(account, { $case: 'getAccount', value: {} })
  await life.end({ cleanly: true })
  life = await live(path)
  const startedMs = performance.now()
  const after = await life.ask(account, { $case: 'getAccount', value: {} })
  const ms = performance.now() - startedMs
  t.comment(`activation of 10,000 files: ${ms.toFixed(1)} ms`)
  t.strictSame(after, before)
  t.equal(after.result?.$case === 'account' && after.result.value.fileCount, 10_000)
  t.ok(ms < 2000, `${ms} ms`)
  t.strictSame(life.faults, [])
  await life.end({ cleanly: true })
})

/** Counts a state's work in the loop's turn: slices of applying, and effects handed over. */
function counted(states: AccountStates, count: (what: 'slices' | 'effects') => void): AccountStates {
  return wrapped(states, (state) => ({
    *applying(change) {
      for (const _ of state.applying(change)) {
        count('slices')
        yield
      }
    },
    *effects(after, through) {
      for (const effect of state.effects(after, through)) {
        count('effects')
        yield effect
      }
    },
  }))
}

t.test('deleting 40,000 contents leaves the loop a turn after each slice', async (t) => {
  const done = { slices: 0, effects: 0 }
  const most = { slices: 0, effects: 0 }
  const all = { slices: 0, effects: 0 }
  const path = t.testdir()
  const counting = counted(states, (what) => {
    all[what]++
    most[what] = Math.max(most[what], ++done[what])
  })
  let life = await live(path, { turnMs: 0 }, counting)
  const account = ring.ids.account('eu-par')
  const folderId = String(itemOf(await life.ask(account, upload('first'))).parentFolder)
  const top = { ...blank(ManifestEntry), isFolder: true }
  for (const part of ['a', 'b']) {
    const entries = Array.from({ length: 20_000 }, (_, at) =>
      at === 0 ? { ...top, name: part } : { ...top, isFolder: false, name: `${part}${at}`, blob: blob() },
    )
    const sources = [{ contentId: part, manifest: { entries } }]
    await life.ask(account, {
      $case: 'copyContents',
      value: { ...blank(CopyContents), sources, folderId },
    })
  }
  const references = async () => {
    let count = 0
    for await (const _ of life.store.lookups.scan('ref/')) count++
    return count
  }
  t.equal(await references(), 39_999)

  let watching = true
  const turn = () => {
    done.slices = 0
    done.effects = 0
    if (watching) setImmediate(turn)
  }
  most.effects = 0
  most.slices = 0
  all.slices = 0
  turn()
  await life.ask(account, {
    $case: 'deleteContents',
    value: { contentIds: [folderId], representation: undefined, heldSeconds: undefined },
  })
  t.strictSame((await rootOf(life, account)).children, [], 'gone at once')
  // In the middle of it the process ends: the rest is taken up again.
  await life.end({ cleanly: false })
  life = await live(path, { turnMs: 0 }, counting)
  t.strictSame((await rootOf(life, account)).children, [])
  while ((await references()) > 0) await new Promise((resolve) => setTimeout(resolve, 50))
  watching = false
  t.ok(all.slices >= 36, `${all.slices} slices`)
  t.ok(most.slices <= 2, `${most.slices} slices in one turn`)
  t.ok(most.effects <= 2 * 1024, `${most.effects} effects in one turn`)
  t.strictSame(life.faults, [])
  await life.end({ cleanly: true })
})

t.test('a folder password opens with its hash, checked by scrypt beside the turn', async (t) => {
  const life = await live(t.testdir())
  const account = ring.ids.account('eu-par')
  const folderId = String(itemOf(await life.ask(account, upload('f'))).parentFolder)
  const hex = 'ab'.repeat(32)
  const salt = randomBytes(16)
  const verifier = { salt, hash: scryptSync(hex, salt, 32, { N: 2 ** 14, r: 8, p: 1 }), cost: 14 }
  await life.ask(account, {
    $case: 'updateContent',
    value: { contentId: folderId, attribute: { $case: 'password', value: { verifier } } },
  })
  const visit = async (password?: string) => {
    const visitor: CallerCase = { $case: 'visitor', value: { accountId: '' } }
    const { result } = await life.ask(account, reading(folderId, password), visitor)
    return result?.$case === 'refusal' ? result.value.status : result?.$case
  }
  t.equal(await visit(), 'error-passwordRequired')
  t.equal(await visit('cd'.repeat(32)), 'error-passwordWrong')
  t.equal(await visit(hex.toUpperCase()), 'content')
  await life.end({ cleanly: true })
})
