/**
 * What one client was promised: the tree below its folder after every acknowledged call. Compared
 * with the service's tree after a crash, it shows what was lost, what came back and what is half.
 */
import type { Item } from '../acceptance/answer.ts'

export interface Node {
  id: string
  type: 'file' | 'folder'
  name: string
  md5?: string
  size?: number
  tags?: string
  description?: string
  public?: boolean
  /** Direct links by id. */
  links: Map<string, string>
  parent: Node | undefined
  children: Map<string, Node>
}

export class Ledger {
  readonly top: Node
  readonly byId = new Map<string, Node>()
  /** Ids that were acknowledged as deleted, the newest last. */
  readonly deleted: string[] = []
  /** Copies whose answer showed only their top, with a copy of what must be below. */
  readonly incomplete = new Map<Node, string>()

  constructor(folder: Item) {
    this.top = nodeOf(folder, undefined)
    this.byId.set(folder.id, this.top)
  }

  nodes(type?: 'file' | 'folder'): Node[] {
    return [...this.byId.values()].filter((node) => type === undefined || node.type === type)
  }

  /** Adds a content with everything below it to the ledger, as the service shows it. */
  adopt(item: Item, parent: Node): Node {
    const node = nodeOf(item, parent)
    parent.children.set(node.id, node)
    this.byId.set(node.id, node)
    for (const child of Object.values(item.children ?? {})) this.adopt(child, node)
    return node
  }

  /** Adds an acknowledged copy of `source`, of which the answer showed the top. */
  adoptCopy(source: Node, top: Item, parent: Node): void {
    // Recorded first: the copy may be below its own source.
    const expected = likenessOfChildren(source)
    const had = source.children.size > 0
    const node = this.adopt({ ...top, children: {} }, parent)
    if (had) this.incomplete.set(node, expected)
  }

  /**
   * Adds what is below such copies from the service's tree. @throws when one is not what was
   * copied.
   */
  completeCopies(shown: Item): void {
    const node = this.byId.get(shown.id)
    const expected = node === undefined ? undefined : this.incomplete.get(node)
    if (node !== undefined && expected !== undefined) {
      if (likenessOfChildren(shown) !== expected)
        throw new Error(`the copy ${node.id} is not what was copied`)
      for (const child of Object.values(shown.children)) this.adopt(child, node)
      this.incomplete.delete(node)
    }
    for (const child of Object.values(shown.children ?? {})) this.completeCopies(child)
  }

  /** Whether the ledger knows everything in and around this node. */
  isComplete(node: Node): boolean {
    return this.#completeAbove(node) && this.#completeBelow(node)
  }

  #completeAbove(node: Node): boolean {
    return !this.incomplete.has(node) && (node.parent === undefined || this.#completeAbove(node.parent))
  }

  #completeBelow(node: Node): boolean {
    return (
      !this.incomplete.has(node) && [...node.children.values()].every((child) => this.#completeBelow(child))
    )
  }

  remove(node: Node): void {
    for (const child of node.children.values()) this.remove(child)
    node.parent?.children.delete(node.id)
    this.byId.delete(node.id)
    this.deleted.push(node.id)
  }

  move(node: Node, to: Node): void {
    node.parent?.children.delete(node.id)
    node.parent = to
    to.children.set(node.id, node)
  }

  /** What differs between the ledger and the service's tree, one line each. */
  differences(shown: Item): string[] {
    return differencesOf(this.top, shown)
  }
}

function nodeOf(item: Item, parent: Node | undefined): Node {
  return {
    id: item.id,
    type: item.type,
    name: item.name,
    ...attributesOf(item),
    links: new Map(Object.entries(item.directLinks ?? {}).map(([id, link]) => [id, link.directLink])),
    parent,
    children: new Map(),
  }
}

function attributesOf(item: Item): Partial<Node> {
  const shown = item.type === 'file' ? { md5: item.md5, size: item.size } : { public: item.public }
  return {
    ...shown,
    ...(item.tags === undefined ? {} : { tags: item.tags }),
    ...(item.description === undefined ? {} : { description: item.description }),
  }
}

const compared = ['type', 'name', 'md5', 'size', 'tags', 'description', 'public'] as const

function differencesOf(node: Node, item: Item): string[] {
  const reported = { ...nodeOf(item, undefined) }
  const lines = compared
    .filter((field) => node[field] !== reported[field])
    .map((field) => `${node.type} ${node.id}: ${field} is ${reported[field]}, acknowledged ${node[field]}`)
  for (const id of node.links.keys())
    if (!reported.links.has(id)) lines.push(`${node.type} ${node.id}: link ${id} is lost`)
  for (const id of reported.links.keys())
    if (!node.links.has(id)) lines.push(`${node.type} ${node.id}: link ${id} was not acknowledged`)
  const shown = item.children ?? {}
  if (node.type === 'folder' && item.childrenCount !== Object.keys(shown).length)
    lines.push(
      `folder ${node.id}: says ${item.childrenCount} children and shows ${Object.keys(shown).length}`,
    )
  for (const child of node.children.values()) {
    const childShown = shown[child.id]
    if (childShown === undefined) lines.push(`${child.type} ${child.id} (${child.name}) is lost`)
    else lines.push(...differencesOf(child, childShown))
  }
  for (const [id, child] of Object.entries(shown))
    if (!node.children.has(id))
      lines.push(`${child.type} ${id} (${child.name}) was not acknowledged in ${node.id}`)
  return lines
}

/** A content without what a copy of it gets new: equal for a tree and its copy. */
export function likeness(content: Node | Item): string {
  const { type, name, md5, size, tags, description } = content
  const isPublic = type === 'folder' ? content.public : undefined
  return JSON.stringify([type, name, md5, size, tags, description, isPublic, likenessOfChildren(content)])
}

function likenessOfChildren(content: Node | Item): string {
  const children =
    content.children instanceof Map ? [...content.children.values()] : Object.values(content.children ?? {})
  return JSON.stringify(children.map(likeness).sort())
}
