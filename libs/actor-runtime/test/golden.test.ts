/** Rows and keys of accounts, in bytes: stores and other processes have them. */

import { referenceKey } from '@holdfast/journal'
import { MemoryLookupStore, MemoryMedium } from '@holdfast/journal/testing'
import { hex, silentLog, systemTimers } from '@holdfast/kernel'
import { blank, Change } from '@holdfast/wire'
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'
import { encodeRoot } from '../src/account/rows/checkpoints.ts'
import { cutPages, encodeFlushRow, pageDigestOf } from '../src/account/rows/flush-row.ts'
import { Reconciler } from '../src/index.ts'
import { ActiveSegments } from '../src/lookups/active-segments.ts'
import {
  activeSegmentPrefix,
  codesCounter,
  hostKey,
  legacyCodesCounter,
  routeRow,
} from '../src/lookups/lookup-rows.ts'
import { WakeHours } from '../src/lookups/wake-hours.ts'
import { asidePrefix } from '../src/repair/repair.ts'
import { plainReconciler } from '../src/testing.ts'
import { blob } from './tiny-core.ts'
import { settled, World } from './world.ts'

const account = '01234567-89ab-4def-8123-456789abcdef'

t.test('rows beside the journal', async (t) => {
  const lookups = new MemoryLookupStore(new MemoryMedium())
  const wakeHours = new WakeHours(lookups, { buckets: 64, nowSeconds: () => 1_800_000_000 })
  const at = { home: 'eu-par', account }
  const wake = wakeHours.keyFor(at, 1_800_003_600)
  await wakeHours.holds(wake)
  const own = []
  for await (const { key, value } of lookups.scan('hours/')) own.push(`${key} ${hex(value)}`)
  const codes = [routeRow(8, 1_000, account), routeRow(6, 70, account)]
  const lines = [
    `active ${activeSegmentPrefix({ home: 'eu-par', host: 'host-1', segment: 3 })}${account}`,
    `host ${hostKey('eu-par', 'host-1')}`,
    `wake ${wake}`,
    ...own,
    `reference ${referenceKey(blob(7), account)}`,
    ...codes.map((row) => ('put' in row ? `code ${row.put} ${hex(row.value)}` : '')),
    `counter ${codesCounter}`,
    `counter ${legacyCodesCounter}`,
  ]
  sameAsGolden(t, import.meta.dirname, 'lookups.txt', lines)
})

t.test('values of the rows of hosts', async (t) => {
  const lookups = new MemoryLookupStore(new MemoryMedium())
  let nowMs = 1_800_000_000_000
  const clock = { now: () => nowMs, monotonic: () => nowMs }
  const bounds = { rowsPerSegment: 1, segmentsBack: 8, goneSeconds: 60, trustMs: 60_000 }
  const segmentsOf = (hostId: string) => new ActiveSegments(lookups, { hostId, clock, ...bounds })
  const [host, other] = [segmentsOf('host-1'), segmentsOf('host-2')]
  const lines: string[] = []
  const note = async (name: string) => {
    const row = await lookups.get(hostKey('eu-par', 'host-1'))
    lines.push(`${name} ${row && Buffer.from(row).toString()}`)
  }
  await host.take('eu-par')
  await note('one slot')
  await host.take('eu-par')
  await note('two slots')
  const prune = async () => {
    for await (const one of other.others('eu-par')) await other.prune('eu-par', one)
  }
  await prune()
  await note('marked')
  nowMs += 61_000
  await prune()
  await note('removed')
  sameAsGolden(t, import.meta.dirname, 'host-rows.txt', lines)
})

t.test('rows that an account writes beside its journal, with their values', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host('one')
  await world.create()
  await world.folder('later')
  const attribute = { $case: 'expiry' as const, value: { expiry: 4_000_000_000, deleteAfterExpiry: false } }
  await world.ask({ $case: 'updateContent', value: { contentId: 'later', attribute } })
  const lines: string[] = []
  for (const kind of ['active/', 'wake/'])
    for await (const { key, value } of world.lookups.scan(kind)) {
      // The account is random, and so is its bucket.
      const parts = key.replace(world.account, '<account>').split('/')
      parts[kind === 'wake/' ? 2 : 3] = '<number>'
      lines.push(`${parts.join('/')} = ${hex(value)}`)
    }
  sameAsGolden(t, import.meta.dirname, 'account-rows.txt', lines)
})

t.test('rows of the journal and roots of checkpoints', async (t) => {
  const change = Change.encode({
    ...blank(Change),
    requestId: Buffer.alloc(16, 1),
    timeMs: 1_800_000_000_000,
    events: [{ event: { $case: 'effectsDone', value: { numbers: [1, 300] } } }],
    operation: 44,
  }).finish()
  const large = cutPages(Buffer.alloc(300_000, 5), (page) => `2-e1-${page}`)
  const page = { name: '2-0-0', digest: pageDigestOf(Buffer.alloc(9)), part: 3, bytes: 9 }
  const lines = [
    `row ${hex(encodeFlushRow([change]))}`,
    `row with a large change ${hex(encodeFlushRow([change, large]))}`,
    `root ${hex(encodeRoot({ through: 70, pages: [page] }))}`,
  ]
  sameAsGolden(t, import.meta.dirname, 'journal.txt', lines)
})

t.test('names of pages', async (t) => {
  const lines: string[] = []
  for (const [what, name, checkpointBytesMin] of [
    ['a large change', 'large:300000', 1_000_000],
    ['a checkpoint', 'many:1000', 200],
  ] as const) {
    const world = new World()
    t.teardown(() => world.close())
    world.host('one', { bounds: { checkpointBytesMin } })
    await world.create()
    await world.folder(name)
    await settled()
    for await (const page of world.journal.pageNames(world.account)) lines.push(`${what} ${page}`)
  }
  lines.push(`kept aside by a repair ${asidePrefix}`)
  sameAsGolden(t, import.meta.dirname, 'pages.txt', lines)
})

t.test('what is recorded of rounds of the reconciler', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host('one')
  await world.create()
  const written: string[] = []
  const notes = {
    read: async () => (written.length === 0 ? undefined : Buffer.from(written.at(-1) as string)),
    write: async (bytes: Uint8Array) => void written.push(Buffer.from(bytes).toString()),
  }
  // Each read takes long enough that every place is recorded.
  let ms = 0
  const clock = { now: () => 1_800_000_000_000, monotonic: () => (ms += 10_000) }
  const round = new Reconciler({
    ...plainReconciler,
    accounts: world.client,
    listAccounts: (after) => world.journal.accounts(after === undefined ? {} : { after }),
    listReferences: (after) => world.lookups.walk('ref', after === undefined ? {} : { after }),
    notes,
    perSecond: 1_000_000,
    everyMs: 3_600_000,
    wantedMs: 1_000,
    clock,
    timers: systemTimers,
    log: silentLog,
  })
  await round.reconcile({ dryRun: false })
  const lines = written.map((line) => line.replaceAll(world.account, '<account>'))
  sameAsGolden(t, import.meta.dirname, 'rounds.txt', lines)
})
