/**
 * The operations of a crash test's clients. Each operation defines three things: its request, the
 * effect of an acknowledgement on the ledger, and, without an answer, how to see whether it
 * happened. It must have happened whole or not at all.
 */
import type { Answer, DirectLink, Item } from '../acceptance/answer.ts'
import { type Account, md5, representation } from '../acceptance/world.ts'
import { type Ledger, likeness, type Node } from './ledger.ts'
import { SeededNumbers } from './seeded.ts'

export interface Operation {
  name: string
  ask(): Promise<Answer>
  /** The service answered ok with this. */
  acknowledged(data: unknown): void
  /**
   * No answer came; `shown` is the current tree. True when it happened, and then the ledger has it.
   *
   * @throws when it happened by half.
   */
  unknown(shown: Item): boolean
}

/** Contents that some files share, so that equal bytes are stored, deleted and stored again. */
const sharedContents = 12
/** A client's tree stays below this: past it deletions are drawn more often. */
const nodesMax = 120
const depthMax = 8

export function drawOperation(random: SeededNumbers, account: Account, ledger: Ledger): Operation {
  const crowded = ledger.byId.size > nodesMax
  const draws: [weight: number, draw: () => Operation | undefined][] = [
    [crowded ? 5 : 30, () => upload(random, account, ledger)],
    [crowded ? 2 : 12, () => createFolder(random, account, ledger)],
    [16, () => update(random, account, ledger)],
    [crowded ? 40 : 12, () => remove(random, account, ledger)],
    [crowded ? 0 : 8, () => copy(random, account, ledger)],
    [8, () => move(random, account, ledger)],
    [7, () => makeLink(random, account, ledger)],
    [4, () => removeLink(random, account, ledger)],
  ]
  const total = draws.reduce((sum, [weight]) => sum + weight, 0)
  for (;;) {
    let left = random.below(total)
    for (const [weight, draw] of draws) {
      left -= weight
      if (left >= 0) continue
      const drawn = draw()
      if (drawn !== undefined) return drawn
      break
    }
  }
}

function upload(random: SeededNumbers, account: Account, ledger: Ledger): Operation {
  const parent = folderIn(random, ledger)
  const content = drawContent(random)
  const name = `file-${random.below(1_000_000)}`
  const key = `upload-${account.id}-${name}-${random.below(1_000_000_000)}`
  const ask = () =>
    account.upload({ in: parent.id, name, content, call: { headers: { 'idempotency-key': key } } })
  return {
    name: 'upload',
    ask,
    acknowledged: (data) => {
      const item = data as Item
      if (item.md5 !== md5(content) || item.size !== content.length)
        throw new Error(`upload ${item.id}: another md5 or size`)
      ledger.adopt(item, parent)
    },
    unknown: (shown) =>
      created(
        ledger,
        parent,
        shown,
        (item) => item.md5 === md5(content) && item.size === content.length && item.name === name,
      ),
  }
}

function createFolder(random: SeededNumbers, account: Account, ledger: Ledger): Operation {
  const parent = folderIn(random, ledger)
  const name = `folder-${random.below(1_000_000)}`
  return {
    name: 'createFolder',
    ask: () =>
      account.call('POST', '/contents/createFolder', {
        json: { parentFolderId: parent.id, folderName: name },
      }),
    acknowledged: (data) => {
      ledger.adopt(data as Item, parent)
    },
    unknown: (shown) =>
      created(
        ledger,
        parent,
        shown,
        (item) => item.type === 'folder' && item.name === name && item.childrenCount === 0,
      ),
  }
}

function copy(random: SeededNumbers, account: Account, ledger: Ledger): Operation | undefined {
  const source = drawBelow(random, ledger)
  if (source === undefined || heightOf(source) + 1 > depthMax / 2) return undefined
  const parent = folderIn(random, ledger)
  const like = likeness(source)
  return {
    name: 'copy',
    ask: () => account.copy([source.id], parent.id, {}, representation),
    acknowledged: (data) => {
      const made = (data as Record<string, { data: Item }>)[source.id]?.data
      if (made === undefined) throw new Error(`copy of ${source.id}: the answer does not show it`)
      ledger.adoptCopy(source, made, parent)
    },
    unknown: (shown) => created(ledger, parent, shown, (item) => likeness(item) === like),
  }
}

function update(random: SeededNumbers, account: Account, ledger: Ledger): Operation | undefined {
  const node = drawBelow(random, ledger)
  if (node === undefined) return undefined
  const text = `v${random.below(1_000_000)}`
  const [attribute, value] = random.pick<['name' | 'tags' | 'description' | 'public', string | boolean]>(
    node.type === 'file'
      ? [
          ['name', text],
          ['tags', text],
        ]
      : [
          ['name', text],
          ['tags', text],
          ['description', text],
          ['public', random.chance(0.5)],
        ],
  )
  return deterministic(
    'update',
    () => account.update(node.id, attribute, value),
    () => Object.assign(node, { [attribute]: value }),
    (shown) => {
      const item = find(shown, node.id)
      return item !== undefined && item[attribute] === value
    },
  )
}

function remove(random: SeededNumbers, account: Account, ledger: Ledger): Operation | undefined {
  const node = drawBelow(random, ledger)
  if (node === undefined) return undefined
  return deterministic(
    'delete',
    () => account.remove(node.id),
    () => ledger.remove(node),
    (shown) => find(shown, node.id) === undefined,
  )
}

function move(random: SeededNumbers, account: Account, ledger: Ledger): Operation | undefined {
  const node = drawBelow(random, ledger)
  const to = folderIn(random, ledger)
  if (node === undefined || isWithin(to, node) || depthOf(to) + heightOf(node) > depthMax) return undefined
  return deterministic(
    'move',
    () => account.move([node.id], to.id),
    () => ledger.move(node, to),
    (shown) => find(shown, node.id)?.parentFolder === to.id,
  )
}

function makeLink(random: SeededNumbers, account: Account, ledger: Ledger): Operation | undefined {
  const node = drawBelow(random, ledger)
  if (node === undefined) return undefined
  return {
    name: 'make link',
    ask: () => account.call('POST', `/contents/${node.id}/directlinks`, { json: {} }),
    acknowledged: (data) => {
      const link = data as DirectLink
      node.links.set(link.id, link.directLink)
    },
    unknown: (shown) => {
      const links = Object.entries(find(shown, node.id)?.directLinks ?? {}).filter(
        ([id]) => !node.links.has(id),
      )
      if (links.length > 1) throw new Error(`one call made ${links.length} links of ${node.id}`)
      for (const [id, link] of links) node.links.set(id, link.directLink)
      return links.length === 1
    },
  }
}

function removeLink(random: SeededNumbers, account: Account, ledger: Ledger): Operation | undefined {
  const linked = ledger.nodes().filter((node) => node.links.size > 0)
  if (linked.length === 0) return undefined
  const node = random.pick(linked)
  const id = random.pick([...node.links.keys()])
  return deterministic(
    'remove link',
    () => account.call('DELETE', `/contents/${node.id}/directlinks/${id}`),
    () => node.links.delete(id),
    (shown) => {
      const item = find(shown, node.id)
      return item !== undefined && item.directLinks?.[id] === undefined
    },
  )
}

function deterministic(
  name: string,
  ask: () => Promise<Answer>,
  change: () => unknown,
  happened: (shown: Item) => boolean,
): Operation {
  return {
    name,
    ask,
    acknowledged: () => {
      change()
    },
    unknown: (shown) => {
      const did = happened(shown)
      if (did) change()
      return did
    },
  }
}

/**
 * Whether a call without an answer made something new in `parent`, and then exactly what it should.
 */
function created(ledger: Ledger, parent: Node, shown: Item, isExpected: (item: Item) => boolean): boolean {
  const inParent = Object.values(find(shown, parent.id)?.children ?? {})
  const fresh = inParent.filter((item) => !parent.children.has(item.id))
  const [item] = fresh
  if (item === undefined) return false
  if (fresh.length > 1 || !isExpected(item))
    throw new Error(`half or double: ${JSON.stringify(fresh).slice(0, 500)}`)
  ledger.adopt(item, parent)
  return true
}

function drawContent(random: SeededNumbers): Buffer {
  if (random.chance(0.25)) return SeededNumbers.bytes(random.below(sharedContents), 20_000)
  const number = 1_000 + random.below(2_000_000_000)
  const size = random.chance(0.08)
    ? random.below(6_000_000)
    : random.chance(0.3)
      ? random.below(300_000)
      : random.below(9_000)
  return SeededNumbers.bytes(number, size)
}

function folderIn(random: SeededNumbers, ledger: Ledger): Node {
  return random.pick(
    ledger.nodes('folder').filter((folder) => depthOf(folder) < depthMax && ledger.isComplete(folder)),
  )
}

function drawBelow(random: SeededNumbers, ledger: Ledger): Node | undefined {
  const nodes = ledger.nodes().filter((node) => node !== ledger.top && ledger.isComplete(node))
  return nodes.length === 0 ? undefined : random.pick(nodes)
}

function find(shown: Item, id: string): Item | undefined {
  if (shown.id === id) return shown
  for (const child of Object.values(shown.children ?? {})) {
    const found = find(child, id)
    if (found !== undefined) return found
  }
  return undefined
}

function depthOf(node: Node): number {
  return node.parent === undefined ? 0 : 1 + depthOf(node.parent)
}

function heightOf(node: Node): number {
  return Math.max(0, ...[...node.children.values()].map((child) => 1 + heightOf(child)))
}

function isWithin(node: Node, ancestor: Node): boolean {
  return node === ancestor || (node.parent !== undefined && isWithin(node.parent, ancestor))
}
