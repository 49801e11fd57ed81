/** One effect for each client's key within 24 hours, with any other requests between. */
import { dayMs, hourMs, requestIdOfKey } from '@holdfast/kernel'
import { CheckpointPage } from '@holdfast/wire'
import fc from 'fast-check'
import t from 'tap'
import { sizeOf } from '../../../test/forms.ts'
import { KeyDigests } from '../src/account/key-digests.ts'
import { keyDigestsMax, keyedOutcomesMax } from '../src/bounds.ts'
import { blobOf, equal, operator, pagesOf, restored, visitor, World } from './world.ts'

function add(world: World, root: string, key: string, asked?: string): string {
  const requestId = requestIdOfKey(key, asked === undefined ? undefined : Buffer.from(asked.padEnd(8)))
  return world.status(
    operator,
    { addFile: { folderId: root, name: key, mimetype: '', blob: blobOf(key) } },
    { requestId },
  )
}

function addMany(world: World, root: string, name: string): void {
  for (let at = 0; at < keyedOutcomesMax; at++) add(world, root, `${name} ${at}`)
}

t.test('a key that is repeated after 1,024 others is refused, not carried out again', async (t) => {
  const world = new World()
  const root = world.create()
  t.equal(add(world, root, 'first', 'a'), 'ok')
  addMany(world, root, 'other')
  const before = world.changes.length
  t.equal(add(world, root, 'first', 'a'), 'error-alreadyDone')
  t.equal(add(world, root, 'first', 'b'), 'error-idempotencyKey', 'another question under the same key')
  t.equal(
    world.status(
      operator,
      { createFolder: { parentFolderId: root } },
      { requestId: requestIdOfKey('first') },
    ),
    'error-idempotencyKey',
    'another operation',
  )
  const file = { addFile: { folderId: root, name: 'x', mimetype: '', blob: blobOf('x') } }
  const requestId = requestIdOfKey('first')
  t.equal(world.status(visitor, file, { requestId }), 'error-notOwner')
  t.equal(world.status(world.bearer(3), file, { requestId }), 'error-token')
  t.equal(world.changes.length, before)
  world.state = restored(world, pagesOf(world.state))
  t.equal(add(world, root, 'first', 'a'), 'error-alreadyDone', 'also after a takeover')
  world.state = world.replayed()
  t.equal(add(world, root, 'first', 'a'), 'error-alreadyDone', 'also by replay')
})

t.test('a key counts for 24 hours, and is free afterwards', async (t) => {
  const world = new World()
  const root = world.create()
  add(world, root, 'key')
  addMany(world, root, 'other')
  world.nowMs += dayMs
  t.equal(add(world, root, 'key'), 'error-alreadyDone')
  world.nowMs += 2_000
  t.equal(add(world, root, 'key'), 'ok')
  t.equal(world.account().fileCount, keyedOutcomesMax + 2)
  addMany(world, root, 'more')
  t.equal(add(world, root, 'key'), 'error-alreadyDone', 'the second use counts from its own time')
  t.ok(equal(pagesOf(world.state), pagesOf(world.replayed())))
})

t.test('a repeated token reset whose result is gone is no wrong token', async (t) => {
  const world = new World()
  const root = world.create()
  const requestId = requestIdOfKey('reset')
  const reset = { resetToken: { tokenKeyId: 1 } }
  t.equal(world.status(world.bearer(), reset, { requestId }), 'ok')
  addMany(world, root, 'other')
  t.equal(world.status(world.bearer(), reset, { requestId }), 'error-alreadyDone')
})

for (const [name, requestIdOf] of [
  ['key', () => requestIdOfKey('key')],
  ['minted id', (world: World) => world.requestId()],
] as const)
  t.test(`a command that found nothing to do does nothing when its ${name} comes again`, async (t) => {
    const world = new World()
    const root = world.create()
    world.ask(operator, { setAccount: { recycleBin: true } })
    const files = () => world.account().fileCount
    const emptyBin = { requestId: requestIdOf(world) }
    t.match(world.ask(operator, { emptyBin: {} }, emptyBin).result, { $case: 'done' })
    world.ask(operator, { deleteContents: { contentIds: [world.file(root).id] } })
    t.match(world.ask(operator, { emptyBin: {} }, emptyBin).result, { $case: 'done' })
    t.equal(files(), 1, 'the bin is as it was')
    world.state = world.replayed()
    t.match(
      world.ask(operator, { emptyBin: {} }, emptyBin).result,
      { $case: 'done' },
      'also after a takeover',
    )
    t.equal(files(), 1)

    const other = new World()
    const from = other.create()
    const folder = other.folder(from, { name: 'folder' })
    const { id } = other.file(from)
    const move = { moveContents: { contentIds: [id], folderId: from } }
    const moved = { requestId: requestIdOf(other) }
    t.match(other.ask(operator, move, moved).result, { value: { items: [{ id, parentFolder: from }] } })
    other.ask(operator, { moveContents: { contentIds: [id], folderId: folder.id } })
    const again = other.ask(operator, move, moved).result
    t.match(again, { value: { items: [{ id, parentFolder: folder.id }] } }, 'as it is now')
    t.ok(equal(pagesOf(other.state), pagesOf(other.replayed())))
  })

t.test('an account whose digests are full refuses new keys only', async (t) => {
  const world = new World()
  const root = world.create()
  const [first = new Uint8Array(), ...rest] = pagesOf(world.state)
  const page = CheckpointPage.decode(first)
  const names = Buffer.alloc(keyDigestsMax * 12)
  for (let at = 0; at < keyDigestsMax; at++) names.writeUInt32LE(at, at * 12 + 8)
  const seconds = Buffer.from(new Uint32Array(keyDigestsMax).fill(world.now).buffer)
  const columns = {
    names,
    asked: Buffer.alloc(keyDigestsMax * 8),
    seconds,
    operations: Buffer.alloc(keyDigestsMax, 31),
    first: 0,
  }
  const full = CheckpointPage.encode({ ...page, keyDigests: [columns] }).finish()
  world.state = restored(world, [full, ...rest])
  t.ok(world.state.bytes < 48 * 1024 * 1024, 'its memory')
  const pages = pagesOf(world.state)
  t.ok(
    pages.every(({ length }) => length <= 256 * 1024),
    'pages within their bound',
  )
  t.ok(equal(pages, pagesOf(restored(world, pages))))
  t.equal(add(world, root, 'one more'), 'error-rateLimit')
  world.file(root, 'without a key')
  world.nowMs += dayMs + 2_000
  t.equal(add(world, root, 'one more'), 'ok')
  t.equal(add(world, root, 'another'), 'ok')
})

t.test('digests: random uses, clocks and loads agree with a map', async () => {
  const step = fc.record({
    key: fc.nat(60),
    // A host may be behind the one before it.
    passesMs: fc.oneof(
      { weight: 8, arbitrary: fc.nat(2 * hourMs) },
      fc.integer({ min: -hourMs, max: dayMs }),
    ),
    loads: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), fc.integer({ min: 8, max: 64 }), (steps, max) => {
      let digests = new KeyDigests({ max })
      const usedMs = new Map<number, number>()
      let nowMs = 1_700_000_000_000
      // A later clock may have ended a key's day.
      let latestMs = nowMs
      for (const { key, passesMs, loads } of steps) {
        nowMs += passesMs
        latestMs = Math.max(latestMs, nowMs)
        const id = requestIdOfKey(`${key}`, Buffer.from(`asked ${key}`.padEnd(8)))
        const used = usedMs.get(key)
        const found = digests.find(id, nowMs)
        if (used !== undefined && latestMs - used <= dayMs && found === undefined)
          throw new Error(`key ${key} was forgotten after ${latestMs - used} ms`)
        if (used !== undefined && nowMs - used > dayMs + 1_000 && found !== undefined)
          throw new Error(`key ${key} still counts after ${nowMs - used} ms`)
        if (found !== undefined) {
          if (!found.asks(id) || found.operation !== 31) throw new Error('another command came back')
        } else if (!digests.isFull(nowMs)) {
          digests.add(id, { operation: 31, timeMs: nowMs })
          usedMs.set(key, nowMs)
        }
        if (digests.count > max) throw new Error('more than the bound')
        if (loads) digests = loaded(digests, max)
      }
    }),
    { numRuns: sizeOf('keyRuns') },
  )
})

function loaded(digests: KeyDigests, max: number): KeyDigests {
  const copy = new KeyDigests({ max })
  const saved = Array.from({ length: Math.ceil(digests.end / 7) }, (_, at) =>
    digests.saved(at * 7, at * 7 + 7),
  )
  copy.oldest = digests.oldest
  for (const columns of saved) copy.load(columns)
  return copy
}

t.test('an account: random keys, kept outcomes or not, have one effect within 24 hours', async () => {
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('use' as const), key: fc.nat(12) }) },
    { weight: 1, arbitrary: fc.constant({ kind: 'flood' as const }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(dayMs) }) },
    { weight: 1, arbitrary: fc.constantFrom({ kind: 'load' as const }, { kind: 'replay' as const }) },
  )
  let flood = 0
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const world = new World({ tiers: { ...unlimited } })
      const root = world.create()
      const doneMs = new Map<number, number>()
      for (const one of steps) {
        if (one.kind === 'wait') world.nowMs += one.ms
        if (one.kind === 'load') world.state = restored(world, pagesOf(world.state))
        if (one.kind === 'replay') world.state = world.replayed()
        if (one.kind === 'flood') addMany(world, root, `flood ${flood++}`)
        if (one.kind !== 'use') continue
        const before = world.changes.length
        const status = add(world, root, `key ${one.key}`)
        const done = world.changes.length > before
        const lastMs = doneMs.get(one.key)
        if (done && lastMs !== undefined && world.nowMs - lastMs <= dayMs)
          throw new Error(`key ${one.key} had a second effect after ${world.nowMs - lastMs} ms`)
        if (!done && !['ok', 'error-alreadyDone'].includes(status)) throw new Error(status)
        if (done) doneMs.set(one.key, world.nowMs)
      }
    }),
    { numRuns: sizeOf('keyRuns') / 50 },
  )
})

const unlimited = {
  guest: { storage: undefined, contents: undefined, traffic: undefined },
  standard: { storage: undefined, contents: undefined, traffic: undefined },
  premium: { storage: undefined, contents: undefined, traffic: undefined },
}
