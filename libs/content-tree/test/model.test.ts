/**
 * Random commands against the tree and its model: the same answers, the same content, the same view
 * for visitors; and the state is the same live, replayed and loaded from a checkpoint.
 *
 * fast-check prints the seed of a failing sequence.
 */
import type { Item, UpdateContent } from '@holdfast/wire'
import fc from 'fast-check'
import t from 'tap'
import { sizeOf } from '../../../test/forms.ts'
import { Model, type Node, shapeOf } from './model.ts'
import {
  type Ask,
  type AskResult,
  blobOf,
  equal,
  firstPage,
  operator,
  pagesOf,
  passwordOf,
  restored,
  sent,
  system,
  visitor,
  World,
} from './world.ts'

const runs = sizeOf('treeRuns')
const contentsMax = 40
const storageMax = 2_000

type AttributeUpdate = NonNullable<UpdateContent['attribute']>
type AttributeName = AttributeUpdate['$case']

/** How often each is updated. */
const attributeWeights: Record<AttributeName, number> = {
  name: 1,
  description: 1,
  tags: 1,
  isPublic: 1,
  password: 2,
  expiry: 3,
  modTime: 1,
}
const attributes = Object.entries(attributeWeights).flatMap(([name, weight]) =>
  Array.from({ length: weight }, () => name as AttributeName),
)

/** A content by its place among all that ever existed; the model decides about a deleted one. */
const pick = fc.nat(10_000)
const picks = fc.array(pick, { minLength: 1, maxLength: 3 })
const text = fc.constantFrom('', 'a', 'b,c', 'é')

const command = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('folder' as const),
      parent: pick,
      isPublic: fc.option(fc.boolean(), { nil: undefined }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('file' as const),
      folder: fc.option(pick, { nil: undefined }),
      blob: fc.nat(8),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('update' as const),
      content: pick,
      attribute: fc.constantFrom(...attributes),
      value: fc.nat(5),
      text,
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('delete' as const), contents: picks }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('hold' as const),
      contents: picks,
      heldSeconds: fc.constantFrom(0, 20, 30 * 86_400),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('takeBack' as const), contents: picks }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('move' as const), contents: picks, folder: pick }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('copy' as const), contents: picks, folder: pick }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('restore' as const), contents: picks }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('emptyBin' as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('tick' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('wait' as const),
      seconds: fc.constantFrom(0, 1, 7, 40, 31 * 86_400),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('set' as const),
      tier: fc.constantFrom('guest' as const, 'premium' as const, undefined),
      bin: fc.option(fc.boolean(), { nil: undefined }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('link' as const), content: pick, remove: fc.boolean() }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('report' as const), content: pick, sequence: fc.nat(6) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('settle' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reload' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('list' as const),
      content: pick,
      field: fc.constantFrom(1, 2, 3, 4, 5),
    }),
  },
)
type Command = typeof command extends fc.Arbitrary<infer Value> ? Value : never

class Run {
  readonly world = new World()
  readonly model: Model
  readonly ids: string[]
  #names = 0
  #heard = 0
  #used = new Set<string>()
  /** Blobs used since their release was last carried out. */
  #referenced = new Set<string>()

  constructor() {
    const root = this.world.create()
    const { recycleBinFolder } = this.world.account()
    this.world.ask(operator, { setAccount: { limitContents: contentsMax, limitStorage: storageMax } })
    this.model = new Model({ root, bin: recycleBinFolder, now: this.world.now })
    this.model.limitContents = contentsMax
    this.model.limitStorage = storageMax
    this.ids = [root, recycleBinFolder, this.world.id]
  }

  id(place: number): string {
    return this.ids[place % this.ids.length] as string
  }

  step(given: Command): void {
    this.#used = this.model.totals().blobs
    this.#do(given)
    const { files, folders, storage, blobs } = this.model.totals()
    this.#referenced = given.kind === 'settle' ? blobs : this.#referenced.union(blobs)
    same(this.#stats(), { files, folders, storage }, 'statistics')
  }

  #stats() {
    const { fileCount, folderCount, storage } = this.world.account()
    return { files: fileCount, folders: folderCount, storage }
  }

  /** Sends a request, and the same once more: nothing may change the second time. */
  #ask(ask: Ask, who = operator): AskResult {
    const requestId = this.world.requestId()
    const asked = this.world.ask(who, ask, { requestId })
    const again = this.world.ask(who, ask, { requestId })
    if (asked.change !== undefined) {
      same(again.change, undefined, 'a retry changed something')
      same(again.result, asked.result, 'a retry was answered otherwise')
    }
    return asked
  }

  #expect(expected: string, ask: Ask): AskResult | undefined {
    const asked = this.#ask(ask)
    const status = asked.result.$case === 'refusal' ? asked.result.value.status : 'ok'
    same(status, expected, JSON.stringify(ask))
    return status === 'ok' ? asked : undefined
  }

  #do(given: Command): void {
    const { world, model } = this
    switch (given.kind) {
      case 'folder':
        this.#folder(given)
        break
      case 'file':
        this.#file(given)
        break
      case 'update':
        this.#update(given)
        break
      case 'delete': {
        const contentIds = given.contents.map((place) => this.id(place))
        this.#expect(model.delete(contentIds), { deleteContents: { contentIds } })
        break
      }
      case 'hold': {
        const contentIds = given.contents.map((place) => this.id(place))
        const { heldSeconds } = given
        this.#expect(model.delete(contentIds, heldSeconds), { deleteContents: { contentIds, heldSeconds } })
        break
      }
      case 'takeBack': {
        // Most others are not held.
        const held = [...model.held.keys()]
        const contentIds = given.contents.map((place) => held[place % (held.length + 1)] ?? this.id(place))
        this.#expect(model.takeBack(contentIds), { undoSweeps: { contentIds } })
        break
      }
      case 'move': {
        const contentIds = given.contents.map((place) => this.id(place))
        const folderId = this.id(given.folder)
        this.#expect(model.move(contentIds, folderId), { moveContents: { contentIds, folderId } })
        break
      }
      case 'copy':
        this.#copy(given)
        break
      case 'restore': {
        const contentIds = given.contents.map((place) => this.id(place))
        this.#expect(model.restore(contentIds), { restoreContents: { contentIds } })
        break
      }
      case 'emptyBin':
        if (model.bin.children.size > 0) model.emptyBin()
        this.#expect('ok', { emptyBin: {} })
        break
      case 'tick': {
        const due = world.state.nextDue()
        const isDue = due !== undefined && due <= world.now
        same(
          world.ask(system, { tick: {} }).change !== undefined,
          isDue,
          'a tick changes due content and nothing else',
        )
        same(model.tick(), isDue, 'something is due')
        break
      }
      case 'wait':
        world.nowMs += given.seconds * 1000
        model.now = world.now
        break
      case 'set':
        if (given.tier !== undefined) model.setTier(given.tier)
        if (given.bin !== undefined) model.recycleBin = given.bin
        this.#expect('ok', {
          setAccount: {
            ...(given.tier && { tier: given.tier }),
            ...(given.bin === undefined ? {} : { recycleBin: given.bin }),
          },
        })
        break
      case 'link':
        this.#link(given)
        break
      case 'report': {
        const contentId = this.id(given.content)
        const node = model.find(contentId)
        if (given.sequence > this.#heard && node !== undefined && !node.isFolder) node.downloads += 2
        this.#heard = Math.max(this.#heard, given.sequence)
        const counts = [{ contentId, count: 2 }]
        world.ask(system, {
          reportDownloads: {
            source: Buffer.alloc(16, 1),
            sequence: given.sequence,
            counts,
            trafficDirect: 1,
            trafficWeb: 1,
          },
        })
        break
      }
      case 'settle':
        world.settle()
        break
      case 'reload':
        world.state = restored(world, pagesOf(world.state))
        break
      case 'list':
        world.status(operator, {
          readContent: { ...firstPage, contentId: this.id(given.content), sortField: given.field as never },
        })
        break
    }
  }

  #folder({ parent, isPublic }: Extract<Command, { kind: 'folder' }>): void {
    const { model } = this
    const parentFolderId = this.id(parent)
    const name = `n${this.#names++}`
    const found = model.destination(parentFolderId, 'parentFolderId')
    const expected = typeof found === 'string' ? found : model.fits([model.root]) ? 'ok' : 'error-limits'
    const asked = this.#expect(expected, {
      createFolder: { parentFolderId, name, ...(isPublic === undefined ? {} : { isPublic }) },
    })
    if (asked === undefined || typeof found === 'string') return
    const id = itemOf(asked).id
    const inherited = model.inherit(found)
    model.attach(
      model.node({ id, isFolder: true, name, ...inherited, isPublic: isPublic ?? inherited.isPublic }),
      found,
    )
    this.ids.push(id)
  }

  #file({ folder, blob }: Extract<Command, { kind: 'file' }>): void {
    const { model } = this
    const name = `n${this.#names++}`
    const details = { size: blob * 20, blob: String(blob) }
    const file = model.node({ id: '', isFolder: false, name, ...details })
    const found = folder === undefined ? model.root : model.destination(this.id(folder), 'folderId')
    const more = folder === undefined ? [file, model.node({ id: '', isFolder: true, name: '' })] : [file]
    const statusOf = (nodes: readonly Node[]) =>
      typeof found === 'string' ? found : model.fits(nodes) ? 'ok' : 'error-limits'
    const place = folder === undefined ? {} : { folderId: this.id(folder) }
    const empty = more.map((node) => ({ ...node, size: 0 }))
    this.#expect(statusOf(empty), { checkUpload: place })
    const content = { name, mimetype: 'text/plain', blob: blobOf(details.blob, details.size) }
    const asked = this.#expect(statusOf(more), { addFile: { ...content, ...place } })
    if (asked === undefined || typeof found === 'string') return
    const item = itemOf(asked)
    same((asked.outcome as { uses: unknown[] }).uses.length, this.#used.has(details.blob) ? 0 : 1, 'uses')
    let parent = found
    if (folder === undefined) {
      const id = item.parentFolder ?? ''
      parent = model.node({
        id,
        isFolder: true,
        name: item.parentFolderCode ?? '',
        ...model.inherit(found),
        isPublic: true,
      })
      model.attach(parent, found)
      this.ids.push(id)
    }
    file.id = item.id
    model.attach(file, parent)
    this.ids.push(item.id)
  }

  #update({ content, attribute, value, text }: Extract<Command, { kind: 'update' }>): void {
    const { model, world } = this
    const contentId = this.id(content)
    const expiry = value === 0 ? undefined : model.now + value * 6
    const verifier = value < 3 ? undefined : passwordOf(`p${value}`)
    const values: { [Name in AttributeName]: Extract<AttributeUpdate, { $case: Name }> } = {
      name: { $case: 'name', value: `n${this.#names++}` },
      description: { $case: 'description', value: text },
      tags: { $case: 'tags', value: text },
      isPublic: { $case: 'isPublic', value: value > 2 },
      password: { $case: 'password', value: { verifier } },
      expiry: { $case: 'expiry', value: { expiry, deleteAfterExpiry: value > 3 } },
      modTime: { $case: 'modTime', value: value * 100 },
    }
    const sent = values[attribute]
    const node = model.own(contentId)
    const ofFiles = ['name', 'tags', 'modTime'].includes(attribute)
    const expected =
      typeof node === 'string'
        ? node
        : !node.isFolder && !ofFiles
          ? 'error-attribute'
          : node === model.root && attribute === 'expiry'
            ? 'error-rootFolder'
            : 'ok'
    const asked = this.#expect(expected, { updateContent: { contentId, attribute: sent } })
    if (asked === undefined || typeof node === 'string') return
    switch (sent.$case) {
      case 'name':
        node.name = sent.value
        if (node.parent !== undefined) node.parent.modified = model.now
        break
      case 'description':
      case 'tags':
        node[sent.$case] = sent.value
        break
      case 'isPublic':
        node.isPublic = sent.value
        break
      case 'password':
        node.password = verifier === undefined ? undefined : `p${value}`
        break
      case 'expiry':
        Object.assign(node, { expiry, consent: expiry !== undefined && value > 3, closed: false })
        break
      case 'modTime':
        node.modified = sent.value
        break
    }
    const { children, hasChildren, ...answered } = itemOf(asked)
    const read = world.read(operator, contentId)
    same(answered, { ...read, children: undefined, hasChildren: undefined }, 'the answer is the item')
  }

  #copy({ contents, folder }: Extract<Command, { kind: 'copy' }>): void {
    const { model } = this
    const ids = contents.map((place) => this.id(place))
    const folderId = this.id(folder)
    const copied = model.copy(ids, folderId)
    const sources = ids.map((contentId) => ({ contentId, manifest: undefined }))
    const asked = this.#expect(typeof copied === 'string' ? copied : 'ok', {
      copyContents: { sources, folderId },
    })
    if (asked?.result.$case !== 'copy' || typeof copied === 'string') return
    for (const [index, { item }] of asked.result.value.results.entries())
      this.#adopt(copied[index] as Node, item as Item)
  }

  /** Copies learn their ids. Those that look alike are interchangeable. */
  #adopt(node: Node, item: Item): void {
    node.id = item.id
    this.ids.push(item.id)
    if (!node.isFolder) return
    const items = this.#childrenOf(item.id).map((child) => ({ child, shape: this.#shapeOf(child) }))
    const nodes = [...node.children].map((child) => ({ child, shape: shapeOf(child) }))
    const sorted = <Entry extends { shape: string }>(entries: Entry[]) =>
      entries.toSorted((a, b) => (a.shape < b.shape ? -1 : 1))
    same(
      sorted(items).map((entry) => entry.shape),
      sorted(nodes).map((entry) => entry.shape),
      'what was copied',
    )
    for (const [index, entry] of sorted(nodes).entries())
      this.#adopt(entry.child, sorted(items)[index]?.child as Item)
  }

  #childrenOf(id: string): Item[] {
    return this.world.read(operator, id).children
  }

  #shapeOf(item: Item): string {
    const children = item.isFolder ? this.#childrenOf(item.id) : []
    return shapeOf(this.#asNode(item, children))
  }

  #asNode(item: Item, children: Item[]): Node {
    const node = this.model.node({
      id: item.id,
      isFolder: item.isFolder,
      name: item.name,
      size: item.size,
      tags: item.tags ?? '',
      description: item.description ?? '',
      created: item.createTime,
      modified: item.modTime,
      downloads: item.downloads,
      isPublic: item.isPublic,
      password: item.password ? '' : undefined,
      expiry: item.expiry,
      consent: item.deleteAfterExpiry ?? false,
    })
    for (const child of children)
      node.children.add(this.#asNode(child, child.isFolder ? this.#childrenOf(child.id) : []))
    return node
  }

  #link({ content, remove }: Extract<Command, { kind: 'link' }>): void {
    const { model } = this
    const contentId = this.id(content)
    const node = model.own(contentId)
    const link = {
      id: '',
      expireTime: 0,
      sourceIpsAllowed: [],
      domainsAllowed: [],
      domainsBlocked: [],
      auth: [],
      createTime: 0,
    }
    const linkId = typeof node === 'string' ? this.id(0) : [...node.links][0]
    if (!remove) {
      const asked = this.#expect(typeof node === 'string' ? node : 'ok', {
        putDirectLink: { contentId, link },
      })
      if (asked?.result.$case === 'directLink' && typeof node !== 'string')
        node.links.add(asked.result.value.link?.id ?? '')
    } else if (linkId !== undefined) {
      this.#expect(typeof node === 'string' ? node : 'ok', { deleteDirectLink: { contentId, linkId } })
      if (typeof node !== 'string') node.links.delete(linkId)
    }
  }

  /** Everything there is, as the owner and as visitors see it. */
  check(): void {
    const { world, model } = this
    for (const top of [model.root, model.bin]) for (const node of model.all(top)) this.#checkNode(node)
    for (const id of this.ids)
      if (model.find(id) === undefined)
        same(
          world.status(operator, { readContent: { ...firstPage, contentId: id } }),
          'error-notFound',
          'deleted content',
        )
    const replayed = world.replayed()
    const pages = pagesOf(world.state)
    same(equal(pagesOf(replayed), pages), true, 'replay gives the live state')
    const loaded = restored(world, pages)
    same(equal(pagesOf(loaded), pages), true, 'a checkpoint gives the live state')
    for (const other of [replayed, loaded])
      same(other.metadataBytes, world.state.metadataBytes, 'metadata counted as it changed')
    same(replayed.nextDue(), world.state.nextDue(), 'what is due')
    const released = [...world.state.effects()].flatMap(({ effect }) =>
      effect?.$case === 'blobReleased' ? [effect.value.blob?.size ?? -1] : [],
    )
    const unused = [...this.#referenced.difference(model.totals().blobs)].map((blob) => Number(blob) * 20)
    same(released.sort(byNumber), unused.sort(byNumber), 'unused blobs are released, once')
  }

  #checkNode(node: Node): void {
    const { world } = this
    const read = world.read(operator, node.id)
    const { children, ...item } = read
    same(
      shapeOf({ ...this.#asNode(item as Item, []), children: new Set() }),
      shapeOf({ ...node, children: new Set() }),
      `${node.name} is as it should be`,
    )
    same(item.parentFolder, node.parent?.id, 'parent')
    same(
      item.directLinks.map((link) => link.id),
      [...node.links],
      'direct links',
    )
    same(item.recycledTime, node.recycled?.time, 'recycled')
    same(
      children.map((child) => child.id).sort(),
      [...node.children].map((child) => child.id).sort(),
      'children',
    )
    same(item.childrenCount, node.children.size, 'children count')
    const sorted = children.toSorted((a, b) => b.createTime - a.createTime || (a.id < b.id ? 1 : -1))
    same(
      children.map((child) => child.id),
      sorted.map((child) => child.id),
      'newest first',
    )
    for (const password of [undefined, 'p3', 'p5']) this.#checkVisitor(node, password)
  }

  #checkVisitor(node: Node, password: string | undefined): void {
    const { world, model } = this
    const ask = {
      readContent: {
        ...firstPage,
        contentId: node.id,
        ...(password === undefined ? {} : { password: sent(password) }),
      },
    }
    const { result } = world.ask(visitor, ask)
    const status = result.$case === 'refusal' ? result.value.status : 'ok'
    same(status, model.visitorStatus(node, password), `a visitor at ${node.name}`)
    if (result.$case !== 'content' || result.value.item === undefined || !node.isFolder) return
    const { item } = result.value
    const shown = model.shown(node, password)
    same(
      item.children.map((child) => `${child.id} ${!child.canAccess}`).sort(),
      [...shown].map(([id, locked]) => `${id} ${locked}`).sort(),
      'what a visitor sees',
    )
    same(item.childrenCount, shown.size, 'how many it sees')
  }
}

function byNumber(a: number, b: number): number {
  return a - b
}

function itemOf({ result }: AskResult): Item {
  if (result.$case !== 'content' || result.value.item === undefined) throw new Error('no content')
  return result.value.item
}

function same(found: unknown, expected: unknown, what: string): void {
  const [one, other] = [JSON.stringify(found), JSON.stringify(expected)]
  if (one !== other) throw new Error(`${what}: found ${one}, expected ${other}`)
}

t.test('random commands: the tree equals its model, live, replayed and loaded', async (t) => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 100, size: 'max' }), fc.boolean(), (commands, isPremium) => {
      const run = new Run()
      if (isPremium) run.step({ kind: 'set', tier: 'premium', bin: undefined })
      for (const given of commands) run.step(given)
      run.check()
    }),
    { numRuns: runs },
  )
  t.pass(`${runs} sequences`)
})
