/**
 * Checkpoints that write what changed: after any changes between them, and with any
 * of them kept, the parts that are stored are the live state.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { requestIdOfKey } from '@holdfast/kernel'
import { blank, CheckpointPage, DirectLink, ManifestEntry, type UpdateContent } from '@holdfast/wire'
import fc from 'fast-check'
import t from 'tap'
import { sizeOf } from '../../../test/forms.ts'
import { rowsPerPart } from '../src/bounds.ts'
import { noLifetimes } from '../src/contract.ts'
import type { AccountState, CheckpointBase, CheckpointCut } from '../src/index.ts'
import { blobOf, ended, equal, operator, pagesOf, passwordOf, restored, system, World } from './world.ts'

/** What a runtime stores: the pages of each part, and since when. */
class PartStore {
  mark = 0
  parts: Map<number, Uint8Array[]>

  constructor(parts = new Map<number, Uint8Array[]>()) {
    this.parts = parts
  }

  get base(): CheckpointBase {
    return { mark: this.mark, parts: new Set(this.parts.keys()) }
  }

  get pages(): Uint8Array[] {
    return [...this.parts.values()].flat()
  }

  load(world: World): AccountState {
    this.mark = 0
    return restored(world, this.pages)
  }

  /** @returns the pages written. */
  take({ mark, parts }: CheckpointCut): Uint8Array[] {
    const kept = parts.map(({ part, pages }) => [part, pages ?? this.parts.get(part)] as const)
    this.parts = new Map(
      kept.map(([part, pages]) => {
        if (pages === undefined) throw new Error(`part ${part} was never written`)
        return [part, pages]
      }),
    )
    this.mark = mark
    return parts.flatMap(({ pages }) => pages ?? [])
  }
}

type Cut = (state: AccountState, base?: CheckpointBase) => CheckpointCut
const wholeCut: Cut = (state, base) => ended(state.checkpoint(base))
/** A changed part, one of several, is taken for unchanged. */
const forgetfulCut: Cut = (state, base) => {
  const cut = wholeCut(state, base)
  const changed = cut.parts.filter(({ part, pages }) => part > 0 && pages && base?.parts.has(part))
  const [forgotten] = changed.slice(Math.floor(changed.length / 2))
  if (forgotten !== undefined) forgotten.pages = undefined
  return cut
}

function entry(name: string, isFolder = false): ManifestEntry {
  const blob = isFolder ? undefined : blobOf(name)
  return { ...blank(ManifestEntry), sourceId: name, isFolder, name, mimetype: 'text/plain', blob }
}

/** An account of several parts: folders, files, a few passwords. */
function grown(files = 2_600, world = new World()): { world: World; root: string; stored: PartStore } {
  const root = world.create({ tier: 'premium' })
  world.ask(operator, { setAccount: { recycleBin: true } })
  for (let at = 0; at < 4; at++) {
    const folder = world.folder(root, { name: `folder ${at}` })
    const attribute = { $case: 'password', value: { verifier: passwordOf(`${at % 2}`) } } as const
    world.ask(operator, { updateContent: { contentId: folder.id, attribute } })
  }
  const entries = [entry('top', true), ...Array.from({ length: files }, (_, at) => entry(`file ${at}`))]
  world.ask(operator, {
    copyContents: { sources: [{ contentId: 'top', manifest: { entries } }], folderId: root },
  })
  shuffled(world, root, files)
  const stored = new PartStore()
  stored.take(wholeCut(world.state))
  return { world, root, stored }
}

/**
 * A folder whose neighbours lie in different parts of the table: a removal from it changes the part
 * of the next one.
 */
function shuffled(world: World, root: string, files: number): void {
  const { id: folderId } = world.folder(root, { name: 'shuffled' })
  const top = world.read(operator, root).children.find(({ name }) => name === 'top')?.id ?? ''
  const numberOf = (name: string) => Number(name.slice('file '.length))
  const ids = Array.from(
    { length: Math.ceil(files / 1_000) },
    (_, page) => world.read(operator, top, { page: page + 1, pageSize: 1_000 }).children,
  )
    .flat()
    .sort((one, other) => numberOf(one.name) - numberOf(other.name))
    .map(({ id }) => id)
  const half = Math.floor(ids.length / 2)
  const contentIds = Array.from({ length: 120 }, (_, at) => [ids[at], ids[half + at]] as string[]).flat()
  world.ask(operator, { moveContents: { contentIds, folderId } })
}

function idsOf(world: World, root: string): string[] {
  const ids = [root]
  const open = [world.read(operator, root, { maxDepth: 16, pageSize: 1_000 })]
  for (let item = open.pop(); item !== undefined; item = open.pop()) {
    if (item.id !== root) ids.push(item.id)
    open.push(...item.children)
  }
  return ids
}

/** A few contents that much happens to: neighbours of each other, in different parts. */
function busyIdsOf(world: World, root: string): string[] {
  const folders = world.read(operator, root).children
  const id = folders.find(({ name }) => name === 'shuffled')?.id ?? ''
  const { children } = world.read(operator, id)
  const first = children.filter(({ name }) => /^file [0-7]$|^file 130[0-7]$/.test(name))
  return [...folders, ...first].map((item) => item.id)
}

/** A new value of each attribute; the model of the tree has the rules of refusals. */
const valuesOf: { [Name in AttributeUpdate['$case']]: (n: number, now: number) => ValueOf<Name> } = {
  name: (n) => `renamed ${n}`,
  description: (n) => (n % 3 === 0 ? '' : `about ${n}`),
  tags: (n) => `tag${n}`,
  isPublic: (n) => n % 2 === 0,
  password: (n) => ({ verifier: n % 3 === 0 ? undefined : passwordOf(`${n % 7}`) }),
  expiry: (n, now) => ({ expiry: now + (n % 50), deleteAfterExpiry: n % 2 === 0 }),
  modTime: (n) => n,
}
type AttributeUpdate = NonNullable<UpdateContent['attribute']>
type ValueOf<Name> = Extract<AttributeUpdate, { $case: Name }>['value']

interface Happening {
  world: World
  contentId: string
  folderId: string
  root: string
  n: number
}

const acts: Record<string, (happening: Happening) => unknown> = {
  folder: ({ world, folderId, n }) =>
    world.ask(operator, { createFolder: { parentFolderId: folderId, name: `${n}` } }),
  file: ({ world, folderId, n }) =>
    world.ask(operator, { addFile: { folderId, name: `${n}`, mimetype: '', blob: blobOf(`${n % 9}`) } }),
  keyed: ({ world, root, n }) =>
    world.ask(
      operator,
      { createFolder: { parentFolderId: root, name: `${n}` } },
      { requestId: requestIdOfKey(`key ${n % 30}`) },
    ),
  ...Object.fromEntries(
    Object.entries(valuesOf).map(([$case, valueAt]) => [
      $case,
      ({ world, contentId, n }: Happening) => {
        const attribute = { $case, value: valueAt(n, world.now) } as AttributeUpdate
        return world.ask(operator, { updateContent: { contentId, attribute } })
      },
    ]),
  ),
  move: ({ world, contentId, folderId }) =>
    world.ask(operator, { moveContents: { contentIds: [contentId], folderId } }),
  copy: ({ world, contentId, folderId }) =>
    world.ask(operator, { copyContents: { sources: [{ contentId, manifest: undefined }], folderId } }),
  delete: ({ world, contentId }) => world.ask(operator, { deleteContents: { contentIds: [contentId] } }),
  bin: ({ world, n }) => world.ask(operator, { setAccount: { recycleBin: n % 2 === 0 } }),
  hold: ({ world, contentId, n }) => {
    const contentIds = [contentId]
    const deletion = { deleteContents: { contentIds, heldSeconds: n * 1_000 } }
    world.ask(operator, n % 2 === 1 ? deletion : { undoSweeps: { contentIds } })
  },
  emptyBin: ({ world }) => world.ask(operator, { emptyBin: {} }),
  restore: ({ world, contentId }) => world.ask(operator, { restoreContents: { contentIds: [contentId] } }),
  link: ({ world, contentId, n }) => {
    const link = { ...blank(DirectLink), domainsAllowed: [`${n}.example.org`] }
    return world.ask(operator, { putDirectLink: { contentId, link } })
  },
  report: ({ world, contentId, n }) =>
    world.ask(system, {
      reportDownloads: {
        source: Buffer.alloc(16, n % 5),
        sequence: n + 1,
        counts: [{ contentId, count: 1 }],
        trafficDirect: 1,
        trafficWeb: 1,
      },
    }),
  wait: ({ world, n }) => {
    world.nowMs += n * 100
    world.ask(system, { tick: {} })
  },
  settle: ({ world }) => world.settle(),
}
const kinds = Object.keys(acts)

/** One thing that happens to the account. What does not fit is refused, which is fine. */
function happen(
  world: World,
  kind: string,
  [contentId = '', folderId = '', root = '']: string[],
  n: number,
): void {
  acts[kind]?.({ world, contentId, folderId, root, n })
}

const happening = fc.record({
  kind: fc.constantFrom(...kinds),
  one: fc.nat(4_000),
  two: fc.nat(5),
  n: fc.nat(10_000),
})
const history = fc.array(
  fc.oneof(
    { weight: 8, arbitrary: happening },
    { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('cut', 'lost cut', 'load') }) },
  ),
  { maxLength: 40 },
)

/** @param cut how checkpoints are made. */
function partsAreTheState(cut: Cut): fc.IProperty<unknown> {
  const { world, root, stored } = grown()
  const ids = idsOf(world, root)
  const start = { parts: stored.parts, nowMs: world.nowMs, ids, busy: busyIdsOf(world, root) }
  return fc.property(history, (steps) => {
    const held = new PartStore(start.parts)
    world.nowMs = start.nowMs
    world.state = held.load(world)
    for (const step of steps) {
      if ('one' in step) {
        const from = step.n % 2 === 0 ? start.ids : start.busy
        const one = from[step.one % from.length]
        happen(world, step.kind, [one, start.ids[step.two], root] as string[], step.n)
        continue
      }
      const made = cut(world.state, held.base)
      if (step.kind === 'lost cut') continue
      held.take(made)
      if (step.kind === 'cut') continue
      world.state = held.load(world)
    }
    held.take(cut(world.state, held.base))
    if (!equal(held.pages, pagesOf(world.state))) throw new Error('the parts are another state')
    if (!equal(pagesOf(restored(world, held.pages)), held.pages)) throw new Error('they load as another one')
  })
}

const numRuns = sizeOf('partRuns')

t.test('after any history the parts of the last checkpoint that holds are the live state', async () => {
  fc.assert(partsAreTheState(wholeCut), { numRuns })
})

t.test('each change writes only the parts that it affects', async (t) => {
  const { world, root, stored } = grown()
  const busy = busyIdsOf(world, root)
  const { nowMs } = world
  const { parts } = stored
  for (const kind of kinds)
    for (let at = 0; at < busy.length; at += sizeOf('partEveryNth')) {
      const one = busy[at]
      const held = new PartStore(parts)
      world.nowMs = nowMs
      world.state = held.load(world)
      // Set, changed and removed, each seen by a checkpoint of its own.
      for (const n of [1, 2, 3]) {
        happen(world, kind, [one, busy[(at + n) % 5], root] as string[], n)
        held.take(wholeCut(world.state, held.base))
        if (!equal(held.pages, pagesOf(world.state))) t.fail(`${kind} of ${at}, ${n}`)
      }
    }
  t.pass()
})

t.test('a changed part that is forgotten is found by that property', async (t) => {
  t.equal(fc.check(partsAreTheState(forgetfulCut), { numRuns, endOnFailure: true }).failed, true)
})

t.test('a change of one content writes only its part and the first page', async (t) => {
  const { world, root, stored } = grown()
  const rest = world.read(operator, root).children.find(({ name }) => name === 'top')
  const file = world.read(operator, rest?.id ?? '', { pageSize: 1 }).children[0]
  world.state = stored.load(world)
  world.ask(operator, {
    updateContent: { contentId: file?.id ?? '', attribute: { $case: 'tags', value: 'new' } },
  })
  const pages = stored.take(wholeCut(world.state, stored.base)).map((bytes) => CheckpointPage.decode(bytes))
  t.equal(pages.filter(({ contents }) => contents !== undefined).length, 1)
  t.equal(pages.filter(({ blobs }) => blobs !== undefined).length, 0)
  t.equal(pages.length, 3, 'and the outcome of the request')
  t.equal(stored.take(wholeCut(world.state, stored.base)).length, 1)
})

t.test('a content that leaves its folder changes the part of the one behind it', async (t) => {
  for (const kind of ['delete', 'move'] as const) {
    const { world, root, stored } = grown()
    world.ask(operator, { setAccount: { recycleBin: false } })
    const folders = world.read(operator, root).children
    const idOf = (name: string) => folders.find((folder) => folder.name === name)?.id ?? ''
    world.state = stored.load(world)
    const leaves = world.read(operator, idOf('shuffled')).children.find(({ name }) => name === 'file 9')
    const contentIds = [leaves?.id ?? '']
    if (kind === 'delete') world.ask(operator, { deleteContents: { contentIds } })
    else world.ask(operator, { moveContents: { contentIds, folderId: idOf('folder 0') } })
    world.settle()
    stored.take(wholeCut(world.state, stored.base))
    t.ok(equal(stored.pages, pagesOf(world.state)), kind)
  }
})

t.test('an expiry that fires and keeps its folder changes its part', async (t) => {
  const { world, root, stored } = grown()
  const id = world.read(operator, root).children.find(({ name }) => name === 'folder 0')?.id ?? ''
  const value = { expiry: world.now + 5, deleteAfterExpiry: false }
  world.ask(operator, { updateContent: { contentId: id, attribute: { $case: 'expiry', value } } })
  stored.take(wholeCut(world.state, stored.base))
  const before = pagesOf(world.state)
  world.nowMs += 6_000
  world.ask(system, { tick: {} })
  t.notOk(equal(before, pagesOf(world.state)), 'it fired')
  stored.take(wholeCut(world.state, stored.base))
  t.ok(equal(stored.pages, pagesOf(world.state)))
})

t.test('a use that keeps a folder from being idle changes its part', async (t) => {
  const idle = { ...noLifetimes, idleSeconds: 100 }
  const { world, root, stored } = grown(2_600, new World({ lifetimes: { guest: idle, standard: idle } }))
  const folder = world.read(operator, root).children.find(({ name }) => name === 'shuffled')
  world.ask(operator, { setAccount: { tier: 'standard' } })
  world.ask(system, { tick: {} })
  stored.take(wholeCut(world.state, stored.base))
  world.nowMs += 5_000
  world.ask(system, {
    reportDownloads: {
      source: Buffer.alloc(16),
      sequence: 1,
      counts: [{ contentId: folder?.id ?? '', count: 1 }],
      trafficDirect: 0,
      trafficWeb: 0,
    },
  })
  stored.take(wholeCut(world.state, stored.base))
  t.ok(equal(stored.pages, pagesOf(world.state)))
})

t.test('a table that was nearly emptied is made dense when it is loaded', async (t) => {
  const { world, root, stored } = grown(8 * rowsPerPart)
  const top = world.read(operator, root).children.find(({ name }) => name === 'top')?.id ?? ''
  world.ask(operator, { setAccount: { recycleBin: false } })
  const files = Array.from({ length: 9 }, (_, page) =>
    world.read(operator, top, { page: page + 1, pageSize: 1_000 }).children.map(({ id }) => id),
  ).flat()
  const going = files.filter((_, at) => at % 8 !== 0)
  for (let at = 0; at < going.length; at += 1_000)
    world.ask(operator, { deleteContents: { contentIds: going.slice(at, at + 1_000) } })
  world.settle()
  stored.take(wholeCut(world.state, stored.base))
  const live = pagesOf(world.state)
  const before = world.state.bytes
  world.state = stored.load(world)
  t.ok(world.state.bytes < before / 3, `${before} bytes became ${world.state.bytes}`)
  stored.take(wholeCut(world.state, stored.base))
  t.ok(equal(stored.pages, live))
  world.file(root, 'one more')
  stored.take(wholeCut(world.state, stored.base))
  t.ok(equal(stored.pages, pagesOf(world.state)))
  t.ok(equal(stored.pages, pagesOf(restored(world, stored.pages))))
})

/** The files were written once by their version, and are never written again. */
const golden = (version: number) =>
  readFileSync(join(import.meta.dirname, 'golden', `checkpoint-${version}.bin`))

/** What the account of the golden files went through. */
function goldenWorld(): World {
  const world = new World()
  const root = world.create({ tier: 'premium', email: 'ann@example.org' })
  world.ask(operator, { setAccount: { recycleBin: true } })
  const folder = world.folder(root, { name: 'ф', isPublic: true })
  for (const attribute of [
    { $case: 'description', value: '記' },
    { $case: 'tags', value: 'ä,ö' },
    { $case: 'password', value: { verifier: passwordOf('secret') } },
    { $case: 'expiry', value: { expiry: world.now + 9, deleteAfterExpiry: true } },
  ] as const)
    world.ask(operator, { updateContent: { contentId: folder.id, attribute } })
  const below = world.folder(folder.id, { name: 'below' })
  for (let at = 0; at < 5; at++)
    world.file(at % 2 ? folder.id : below.id, `file ${at}`, blobOf(`${at % 3}`, at % 3))
  const restricted = { id: '', expireTime: 7, sourceIpsAllowed: [], domainsAllowed: ['example.org'] }
  const link = { ...restricted, domainsBlocked: [], auth: [], createTime: 0 }
  world.ask(operator, { putDirectLink: { contentId: folder.id, link } })
  const recycled = world.file(root, 'recycled')
  world.ask(operator, { deleteContents: { contentIds: [recycled.id] } })
  world.ask(operator, { setAccount: { recycleBin: false } })
  const lost = world.file(root, 'lost', blobOf('lost'))
  world.ask(operator, { deleteContents: { contentIds: [lost.id] } })
  const keyed = { requestId: requestIdOfKey('key') }
  world.ask(operator, { createFolder: { parentFolderId: root, name: 'keyed' } }, keyed)
  world.ask(system, { sendSignIn: {} })
  world.ask(system, {
    reportDownloads: {
      source: Buffer.alloc(16, 9),
      sequence: 3,
      counts: [{ contentId: folder.id, count: 2 }],
      trafficDirect: 10,
      trafficWeb: 5,
    },
  })
  return world
}

t.test('checkpoints of versions 1 and 2 are read, and version 2 is written byte for byte', async (t) => {
  const world = goldenWorld()
  const pages = pagesOf(world.state)
  t.same(Buffer.concat(pages), golden(2))
  for (const version of [1, 2])
    t.ok(equal(pagesOf(restored(world, [golden(version)])), pages), `version ${version}`)
})
