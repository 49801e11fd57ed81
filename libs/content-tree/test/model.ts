/**
 * The tree in its simplest form: objects, sets and recursion, without regard to speed. It says what
 * each command must answer and what the account must look like afterwards.
 */
import { createHash } from 'node:crypto'
import { type NoteName, noteNames } from '../src/tree/notes.ts'

export interface Node extends Record<NoteName, string> {
  id: string
  isFolder: boolean
  name: string
  parent: Node | undefined
  children: Set<Node>
  size: number
  blob: string
  created: number
  modified: number
  downloads: number
  links: Set<string>
  isPublic: boolean
  password: string | undefined
  expiry: number | undefined
  consent: boolean
  closed: boolean
  recycled: { time: number; from: Node } | undefined
}

export type RefusalStatus = string

export class Model {
  readonly root: Node
  readonly bin: Node
  tier: 'guest' | 'standard' | 'premium' = 'guest'
  recycleBin = false
  limitContents = 40
  limitStorage = 2_000
  now: number
  /** Content that the operator deleted and can restore. */
  readonly held = new Map<string, { node: Node; from: Node; until: number }>()

  constructor(ids: { root: string; bin: string; now: number }) {
    this.now = ids.now
    this.root = this.node({ id: ids.root, isFolder: true, name: 'root' })
    this.bin = this.node({ id: ids.bin, isFolder: true, name: 'recyclebin' })
  }

  node(details: Partial<Node> & { id: string; isFolder: boolean; name: string }): Node {
    return {
      parent: undefined,
      children: new Set(),
      size: 0,
      blob: '',
      tags: '',
      description: '',
      created: this.now,
      modified: this.now,
      downloads: 0,
      links: new Set(),
      isPublic: false,
      password: undefined,
      expiry: undefined,
      consent: false,
      closed: false,
      recycled: undefined,
      ...details,
    }
  }

  *all(top: Node): Generator<Node> {
    yield top
    for (const child of top.children) yield* this.all(child)
  }

  find(id: string): Node | undefined {
    for (const top of [this.root, this.bin]) for (const node of this.all(top)) if (node.id === id) return node
    return undefined
  }

  above(node: Node): Node[] {
    return node.parent === undefined ? [node] : [node, ...this.above(node.parent)]
  }

  inBin(node: Node): boolean {
    return this.above(node).includes(this.bin)
  }

  isOver(node: Node): boolean {
    return this.above(node).some((folder) => folder.expiry !== undefined && folder.expiry <= this.now)
  }

  totals(): { files: number; folders: number; storage: number; blobs: Set<string> } {
    const nodes = [...this.all(this.root), ...this.all(this.bin)]
    const files = nodes.filter((node) => !node.isFolder)
    return {
      files: files.length,
      folders: nodes.length - files.length - 2,
      storage: files.reduce((sum, file) => sum + file.size, 0),
      blobs: new Set(
        [...files, ...[...this.held.values()].flatMap(({ node }) => [...this.all(node)])]
          .filter(({ isFolder }) => !isFolder)
          .map(({ blob }) => blob),
      ),
    }
  }

  fits(nodes: readonly Node[]): boolean {
    const { files, folders, storage } = this.totals()
    const bytes = nodes.reduce((sum, node) => sum + node.size, 0)
    return files + folders + nodes.length <= this.limitContents && storage + bytes <= this.limitStorage
  }

  /** What a command may name: `error-…` or the node. */
  own(id: string): Node | string {
    const node = this.find(id)
    if (node === undefined) return 'error-notFound'
    if (node === this.bin) return 'error-protectedFolder'
    return this.inBin(node) ? 'error-notFound' : node
  }

  destination(id: string, parameter: string): Node | string {
    const node = this.own(id)
    if (typeof node === 'string') return node
    if (!node.isFolder) return `error-${parameter}`
    return this.tier !== 'premium' && this.isOver(node) ? 'error-notFound' : node
  }

  attach(node: Node, parent: Node): void {
    node.parent = parent
    parent.children.add(node)
    parent.modified = this.now
  }

  detach(node: Node): void {
    const { parent } = node
    if (parent === undefined) return
    parent.children.delete(node)
    parent.modified = this.now
    node.parent = undefined
  }

  inherit(parent: Node): Pick<Node, 'isPublic' | 'password' | 'expiry'> {
    const expiry = parent.expiry !== undefined && parent.expiry > this.now ? parent.expiry : undefined
    return { isPublic: parent.isPublic, password: parent.password, expiry }
  }

  /** @param heldSeconds of the operator; undefined: as the owner. */
  delete(ids: readonly string[], heldSeconds?: number): string {
    const nodes: Node[] = []
    for (const id of ids) {
      const node = this.find(id)
      if (node === undefined) return 'error-notFound'
      nodes.push(node)
    }
    if (nodes.includes(this.root) || nodes.includes(this.bin)) return 'error-protectedFolder'
    const named = new Set(nodes)
    const tops = [...named].filter(
      (node) =>
        !this.above(node)
          .slice(1)
          .some((above) => named.has(above)),
    )
    for (const node of tops) {
      const from = node.parent as Node
      const toBin = heldSeconds === undefined && this.recycleBin && !this.inBin(node)
      if (heldSeconds) {
        this.held.set(node.id, { node, from: node.recycled?.from ?? from, until: this.now + heldSeconds })
        node.recycled = undefined
      }
      this.detach(node)
      if (!toBin) continue
      node.recycled = { time: this.now, from }
      this.attach(node, this.bin)
    }
    return 'ok'
  }

  move(ids: readonly string[], folderId: string): string {
    const nodes: Node[] = []
    for (const id of [...ids, folderId]) {
      const node = this.own(id)
      if (typeof node === 'string') return node
      nodes.push(node)
    }
    nodes.pop()
    const folder = this.destination(folderId, 'folderId')
    if (typeof folder === 'string') return folder
    if (nodes.includes(this.root)) return 'error-rootFolder'
    if (nodes.some((node) => this.above(folder).includes(node))) return 'error-folderId'
    for (const node of nodes) {
      if (node.parent === folder) continue
      this.detach(node)
      this.attach(node, folder)
    }
    return 'ok'
  }

  restore(ids: readonly string[]): string {
    const nodes: Node[] = []
    for (const id of ids) {
      const node = this.find(id)
      if (node === undefined || !this.inBin(node)) return 'error-notFound'
      if (node === this.bin) return 'error-protectedFolder'
      nodes.push(node)
    }
    for (const node of nodes) {
      if (!this.inBin(node)) continue
      const from = node.recycled?.from
      const stands =
        from !== undefined && this.find(from.id) === from && !this.inBin(from) && !this.isOver(from)
      this.detach(node)
      node.recycled = undefined
      this.attach(node, stands ? from : this.root)
    }
    return 'ok'
  }

  takeBack(ids: readonly string[]): string {
    if (ids.some((id) => !this.held.has(id))) return 'error-notFound'
    for (const id of new Set(ids)) {
      const { node, from } = this.held.get(id) as { node: Node; from: Node }
      const stands = this.find(from.id) === from && !this.inBin(from) && !this.isOver(from)
      this.held.delete(id)
      this.attach(node, stands ? from : this.root)
      for (const folder of this.all(node))
        if (folder.expiry !== undefined && folder.expiry <= this.now) {
          folder.expiry = undefined
          folder.consent = false
          folder.closed = false
        }
    }
    return 'ok'
  }

  emptyBin(): void {
    for (const node of [...this.bin.children]) this.detach(node)
  }

  /** @returns the copies, without ids, or a refusal. */
  copy(ids: readonly string[], folderId: string): Node[] | string {
    const nodes: Node[] = []
    for (const id of ids) {
      const node = this.own(id)
      if (typeof node === 'string') return node
      nodes.push(node)
    }
    const target = this.own(folderId)
    if (typeof target === 'string') return target
    const folder = this.destination(folderId, 'folderId')
    if (typeof folder === 'string') return folder
    if (nodes.includes(this.root)) return 'error-rootFolder'
    const copies = [...new Set(nodes)].map((node) => this.#cloned(node))
    if (!this.fits(copies.flatMap((copy) => [...this.all(copy)]))) return 'error-limits'
    for (const copy of copies) this.attach(copy, folder)
    return copies
  }

  #cloned(node: Node): Node {
    const expiry = node.expiry !== undefined && node.expiry > this.now ? node.expiry : undefined
    const copy = this.node({
      ...node,
      id: '',
      parent: undefined,
      children: new Set(),
      created: this.now,
      modified: node.isFolder ? this.now : node.modified,
      downloads: 0,
      links: new Set(),
      expiry,
      consent: false,
      closed: false,
      recycled: undefined,
    })
    for (const child of node.children) {
      if (child.expiry !== undefined && child.expiry <= this.now) continue
      const below = this.#cloned(child)
      below.parent = copy
      copy.children.add(below)
    }
    return copy
  }

  /** @returns whether anything was due. */
  tick(): boolean {
    const over = [...this.held].filter(([, { until }]) => until <= this.now)
    for (const [id] of over) this.held.delete(id)
    return this.#endDue() || over.length > 0
  }

  #endDue(): boolean {
    const due = [...this.all(this.root), ...this.all(this.bin)].filter(
      (node) => node.expiry !== undefined && node.expiry <= this.now && !node.closed,
    )
    const old = [...this.bin.children].filter((node) => (node.recycled?.time ?? 0) + 30 * 86_400 <= this.now)
    const goes = (node: Node) => this.tier !== 'premium' || node.consent
    for (const node of due) if (!goes(node)) node.closed = true
    for (const node of [...due.filter(goes), ...old]) this.detach(node)
    return due.length + old.length > 0
  }

  setTier(tier: Model['tier']): void {
    if (tier !== this.tier) this.#endDue()
    this.tier = tier
  }

  /** What a visitor gets that sends this password. */
  visitorStatus(node: Node, password: string | undefined): string {
    const folder = node.isFolder ? node : (node.parent as Node)
    if (this.inBin(folder) || this.isOver(folder)) return 'error-notFound'
    if (!folder.isPublic) return 'error-notOwner'
    if (folder.password === undefined || folder.password === password) return 'ok'
    return password === undefined ? 'error-passwordRequired' : 'error-passwordWrong'
  }

  /** Children that a visitor sees, by whether they are locked to it. */
  shown(folder: Node, password: string | undefined): Map<string, boolean> {
    const shown = new Map<string, boolean>()
    for (const child of folder.children) {
      const status = this.visitorStatus(child, password)
      if (!child.isFolder || status === 'ok') shown.set(child.id, false)
      else if (status.startsWith('error-password')) shown.set(child.id, true)
    }
    return shown
  }
}

/** Equal for trees that differ only in ids. */
export function shapeOf(node: Node): string {
  const details = [
    node.isFolder,
    node.name,
    node.size,
    ...noteNames.map((name) => node[name]),
    node.created,
    node.modified,
  ]
  const access = [node.isPublic, node.password !== undefined, node.expiry, node.consent, node.downloads]
  const children = [...node.children].map((child) => shapeOf(child)).sort()
  return createHash('sha256')
    .update(JSON.stringify([details, access, children]))
    .digest('hex')
}
