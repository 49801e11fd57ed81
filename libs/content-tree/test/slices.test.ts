/**
 * Changes of many contents: how much of one is done before other accounts get their turn, and that
 * slices are invisible.
 */
import { blank, type Change, type Effect, ManifestEntry } from '@holdfast/wire'
import t from 'tap'
import type { Account } from '../src/account/account.ts'
import { applyChange } from '../src/apply.ts'
import { freedRowsPerSlice } from '../src/bounds.ts'
import { checkpointOf } from '../src/checkpoints/checkpoint.ts'
import { loadAccount } from '../src/checkpoints/load.ts'
import { manifestOf } from '../src/reading/manifest.ts'
import { blobOf, ended, equal, operator, pagesOf, settings, system, World } from './world.ts'

/** A second state of a world, to which changes are applied slice by slice. */
class SlicedState {
  readonly account: Account
  /** The most rows that one slice freed. */
  freedMost = 0
  freed = 0

  constructor(world: World) {
    this.account = ended(loadAccount(world.id, pagesOf(world.state)))
  }

  apply(change: Change): void {
    const { tree, effects } = this.account
    const steps = applyChange(this.account, change, { settings, prepared: undefined })
    const before = Math.min(effects.last, 1_000)
    const owed = numbers(effects.all(0, before))
    for (let done = false; !done; ) {
      const rows = tree.contents.count
      done = steps.next().done === true
      const freed = rows - tree.contents.count
      this.freed += Math.max(0, freed)
      this.freedMost = Math.max(this.freedMost, freed)
      // Effects of earlier changes are handed over meanwhile.
      if (!done && numbers(effects.all(0, before)) !== owed)
        throw new Error('a slice shows in what was owed before')
    }
  }

  get pages(): Uint8Array[] {
    return ended(checkpointOf(this.account, undefined)).parts.flatMap(({ pages }) => pages ?? [])
  }
}

function numbers(effects: Iterable<Effect>): string {
  return Array.from(effects, ({ number }) => number).join()
}

function file(name: string): ManifestEntry {
  return { ...blank(ManifestEntry), name, blob: blobOf(name) }
}

function folder(name: string): ManifestEntry {
  return { ...blank(ManifestEntry), isFolder: true, name }
}

t.test('100,000 deleted contents are freed in slices of a bounded number of rows', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const { id: folderId } = world.folder(root)
  for (let part = 0; part < 4; part++) {
    const files = Array.from({ length: 25_000 }, (_, at) => file(`${part}-${at}`))
    const manifest = { entries: [folder(`${part}`), ...files] }
    world.ask(operator, { copyContents: { sources: [{ contentId: `${part}`, manifest }], folderId } })
  }
  world.settle()
  t.equal(world.account().fileCount, 100_000)
  const sliced = new SlicedState(world)
  world.changes.length = 0
  world.ask(operator, { deleteContents: { contentIds: [folderId] } })
  t.match(world.account(), { fileCount: 0, folderCount: 0 }, 'all are gone at once')
  while (world.state.nextDue() === 0) world.ask(system, { tick: {} })
  for (const change of world.changes) sliced.apply(change)
  t.equal(sliced.freed, 100_005)
  t.ok(sliced.freedMost <= freedRowsPerSlice, `${sliced.freedMost} rows at once`)
  t.equal(world.state.lastEffect - sliced.account.effects.last, 0)
  t.equal(Array.from(world.state.effects()).length, 100_000, 'a release for each')
  t.ok(equal(sliced.pages, pagesOf(world.state)))
})

t.test(
  '4,000 deleted contents side by side in a bin are freed in slices of a bounded number of rows',
  async (t) => {
    const world = new World()
    const root = world.create({ tier: 'premium' })
    world.ask(operator, { setAccount: { recycleBin: true } })
    for (let part = 0; part < 4; part++) {
      const sources = Array.from({ length: 1_000 }, (_, at) => {
        const entry = at % 100 === 0 ? folder(`${part}-${at}`) : file(`${part}-${at}`)
        return { contentId: `${part}-${at}`, manifest: { entries: [entry] } }
      })
      const { result } = world.ask(operator, { copyContents: { sources, folderId: root } })
      if (result.$case !== 'copy') throw new Error(`no copies: ${JSON.stringify(result)}`)
      const contentIds = result.value.results.map(({ item }) => item?.id ?? '')
      world.ask(operator, { deleteContents: { contentIds } })
    }
    world.settle()
    const sliced = new SlicedState(world)
    const { change } = world.ask(operator, { emptyBin: {} })
    sliced.apply(change as Change)
    t.equal(sliced.freed, 4_000)
    t.ok(sliced.freedMost <= freedRowsPerSlice, `${sliced.freedMost} rows at once`)
    t.ok(equal(sliced.pages, pagesOf(world.state)))
    t.ok(equal(sliced.pages, pagesOf(world.replayed())))
  },
)

t.test('150,000 folders in one folder are written to checkpoints, and listed for copies', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const { id: folderId } = world.folder(root)
  const folders = Array.from({ length: 150_000 }, (_, at) => folder(`${at}`))
  const manifest = { entries: [folder('many'), ...folders] }
  const copied = { sources: [{ contentId: 'many', manifest }], folderId }
  world.ask(operator, { copyContents: copied })
  t.match(world.account(), { folderCount: 150_002 })
  const { tree } = ended(loadAccount(world.id, pagesOf(world.state)))
  const reported = ended(manifestOf(tree, tree.find(folderId), () => 'take'))
  t.equal('entries' in reported && reported.entries.length, 150_002)
})

t.test('a checkpoint of long texts is cut page by page, with a turn for others after each', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  for (let made = 0; made < 200; made++) {
    const { id: contentId } = world.folder(root, { name: `folder ${made}` })
    const attribute = { $case: 'description', value: '文'.repeat(1_000) } as const
    world.ask(operator, { updateContent: { contentId, attribute } })
  }
  const steps = world.state.checkpoint()
  let turns = 0
  let step = steps.next()
  for (; !step.done; step = steps.next()) turns++
  const pages = step.value.parts.flatMap((part) => part.pages ?? [])
  t.ok(pages.length > 3, `${pages.length} pages`)
  t.ok(turns >= pages.length - 2, `${turns} turns`)
})

t.test(
  'a deep listing of 8,000 folders without children gives others a turn after each thousand',
  async (t) => {
    const world = new World()
    const root = world.create({ tier: 'premium' })
    const entries = Array.from({ length: 100 }, (_, at) => folder(`${at}`))
    for (const [at, { name }] of [...entries.entries()])
      entries.push(
        ...Array.from({ length: 80 }, (_, below) => ({ ...folder(`${name} ${below}`), parent: at + 1 })),
      )
    world.ask(operator, {
      copyContents: {
        sources: [{ contentId: 'many', manifest: { entries: [folder('many'), ...entries] } }],
        folderId: root,
      },
    })
    const [many] = world.item(operator, { readContent: { contentId: root } }).children
    const outcome = world.state.decide(
      world.request(operator, { readContent: { contentId: many?.id ?? '', maxDepth: 16 } }),
      world.context(),
    )
    if (outcome.kind !== 'slices') throw new Error(`${outcome.kind} was not expected`)
    let slices = 1
    while (outcome.steps.next().done !== true) slices++
    t.ok(slices > 2 * 8, `${slices} slices: of the folders above, and of these`)
  },
)
