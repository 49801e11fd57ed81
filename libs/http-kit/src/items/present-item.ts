/**
 * Items as clients see them: one JSON shape for every answer that holds content. Its members are in
 * `item-members.ts`.
 *
 * Cost: this builds plain objects in one pass and signs one capability per folder. A page of files
 * comes as columns and is written as bytes at once (`file-rows.ts`): 1,000 of them in about a
 * millisecond.
 */
import { createSecretKey } from 'node:crypto'
import { type CapabilityKey, signArchiveCapability, signCapability } from '@holdfast/access'
import { hex, RecentMap } from '@holdfast/kernel'
import type { ArchiveView, ContentView, DirectLink, FileColumns, Item } from '@holdfast/wire'
import { copiesMadeBy, FileRows } from './file-rows.ts'
import { type ItemShape, type PresentedItem, shapeOf, writeShape } from './item-members.ts'
import type { JsonWriter } from './json-writer.ts'

/** Settings of an installation for all answers. */
export interface PresentSettings {
  /** Origin of downloads, without a slash at the end. */
  downloadUrl: string
  /**
   * Origin of a content's direct links, the same on every host. Undefined, or when it returns
   * undefined: `downloadUrl`.
   */
  directUrlOf: ((contentId: string) => string | undefined) | undefined
  /**
   * Names of the nodes that now hold a placement group's files, nearest first; of files whose
   * copies were made by `createdMs`, Unix ms.
   */
  serversOf: (placementGroup: number, createdMs: number) => readonly string[]
  /** keyring.derive('capability'). */
  capabilityKey: Uint8Array
}

/** Context of one answer. */
export interface PresentView {
  nowSeconds: number
  /**
   * The reply's token counter. Without it links have no capability, and need a Bearer token or
   * a cookie.
   */
  tokenCounter?: number
  /** An upload's answer: the nodes that acknowledged. */
  servers?: readonly string[]
  /** Further fields of an upload's answer: parentFolderCode, downloadPage, guestToken. */
  extra?: Record<string, unknown>
}

/** How long a link of a listing works, seconds. */
const linkSeconds = 6 * 60 * 60

/** How long the link of an archive works, seconds: an interrupted download can continue. */
const archiveLinkSeconds = 60 * 60

/**
 * Capabilities remembered, some 300 bytes each: uploads into one folder within a second have the
 * same one.
 */
const rememberedCapabilitiesMax = 1_024

/** A content and its page, of which columns hold some files. */
export type ListedContent = Pick<ContentView, 'files'> & { item: Item; places: readonly number[] }

export class ItemPresenter {
  readonly #settings: PresentSettings
  readonly #key: CapabilityKey
  readonly #capabilities = new RecentMap<string, string>({ max: rememberedCapabilitiesMax })

  constructor(settings: PresentSettings) {
    this.#settings = settings
    this.#key = createSecretKey(settings.capabilityKey)
  }

  /** The item with everything below it. */
  item(item: Item, view: PresentView): ItemShape {
    const capability = item.isFolder ? '' : this.#capability(item.parentFolder, item, view)
    const shape = this.#shape(item, view, capability)
    return view.extra === undefined ? shape : Object.assign(shape, view.extra)
  }

  /**
   * Writes the item with everything below it: the same as `item`, also for files in columns. Yields
   * when the writer is full.
   */
  *write(json: JsonWriter, listed: ListedContent, view: PresentView): Generator<void, void> {
    const { item } = listed
    if (item.isFolder && item.canAccess) yield* this.#writeFolder(json, listed, view)
    else json.text(JSON.stringify(this.item(item, view)))
  }

  /** The record of a direct link, as under an item's `directLinks`. */
  directLink(content: { id: string; name: string; isFolder: boolean }, link: DirectLink): ItemShape {
    const name = encodeURIComponent(content.isFolder ? `${content.name}.zip` : content.name)
    return {
      expireTime: link.expireTime,
      sourceIpsAllowed: link.sourceIpsAllowed,
      domainsAllowed: link.domainsAllowed,
      domainsBlocked: link.domainsBlocked,
      auth: link.auth.map(({ user }) => user),
      isReqLink: false,
      directLink: `${this.#settings.directUrlOf?.(content.id) ?? this.#settings.downloadUrl}/direct/${content.id}/${link.id}/${name}`,
    }
  }

  /** The link of an archive that its account opened to a visitor. */
  archiveLink(contentIds: readonly string[], view: ArchiveView, nowSeconds: number): string {
    const { name, passwordVersions } = view
    const ends = nowSeconds + archiveLinkSeconds
    const capability = signArchiveCapability(this.#key, { contentIds, passwordVersions, ends })
    return `${this.#settings.downloadUrl}/download/archive/${encodeURIComponent(`${name}.zip`)}?c=${capability}`
  }

  #shape(item: Item, view: PresentView, capability: string): ItemShape {
    return shapeOf(this.#presented(item, view, capability))
  }

  #presented(item: Item, view: PresentView, capability: string): PresentedItem {
    const directLinks = this.#directLinks(item)
    if (item.isFolder) {
      const children = item.canAccess ? this.#children(item, view) : noChildren
      return { item, servers: noServers, link: '', directLinks, children }
    }
    const servers = view.servers ?? this.#serversOf(item)
    const name = encodeURIComponent(item.name)
    const link = `${this.#settings.downloadUrl}/download/${item.id}/${name}${capability}`
    return { item, servers, link, directLinks, children: noChildren }
  }

  #serversOf({ blob, createTime }: Item): readonly string[] {
    return this.#settings.serversOf(blob?.placementGroup ?? 0, copiesMadeBy(createTime))
  }

  #directLinks(item: Item): Record<string, ItemShape> | undefined {
    if (item.directLinks.length === 0) return undefined
    return Object.fromEntries(item.directLinks.map((link) => [link.id, this.directLink(item, link)]))
  }

  #children(folder: Item, view: PresentView): Record<string, ItemShape> {
    const children: Record<string, ItemShape> = {}
    let capability: string | undefined
    for (const child of folder.children) {
      if (!child.isFolder) capability ??= this.#capability(folder.id, folder, view)
      children[child.id] = this.#shape(child, view, capability ?? '')
    }
    return children
  }

  /** Its children in their order: rows of files, and the others at their positions. */
  *#writeFolder(
    json: JsonWriter,
    { item, files, places }: ListedContent,
    view: PresentView,
  ): Generator<void, void> {
    const shape = this.#shape({ ...item, children: [] }, view, '')
    delete shape.children
    json.text(`${JSON.stringify(shape).slice(0, -1)},"children":{`)
    let capability: string | undefined
    const rows = files && this.#rowsOf(files, item, view)
    json.expect((rows?.bytes ?? 0) + item.children.length * usualItemBytes)
    let left = rows?.left ?? 0
    const count = item.children.length + left
    for (let place = 0, others = 0; place < count; place++) {
      if (json.full) yield
      if (place > 0) json.comma()
      if (left > 0 && place !== places[others]) {
        rows?.write(json)
        left--
        continue
      }
      const child = item.children[others++] as Item
      json.text(`"${child.id}":`)
      if (child.isFolder && child.children.length > 0) {
        yield* this.#writeFolder(json, { item: child, files: undefined, places: noPlaces }, view)
        continue
      }
      if (!child.isFolder) capability ??= this.#capability(item.id, item, view)
      writeShape(json, this.#presented(child, view, capability ?? ''))
    }
    json.text('}}')
  }

  #rowsOf(files: FileColumns, item: Item, view: PresentView): FileRows {
    const { downloadUrl, serversOf } = this.#settings
    const capability = this.#capability(item.id, item, view)
    const { nowSeconds } = view
    const details = {
      folderId: item.id,
      isOwner: item.isOwner,
      downloadUrl,
      capability,
      serversOf,
      nowSeconds,
    }
    return new FileRows(files, details)
  }

  /** For files directly in this folder, as seen by the viewer of `seen`. */
  #capability(folderId: string | undefined, seen: Item, view: PresentView): string {
    if (folderId === undefined || !seen.canAccess) return ''
    if (seen.isOwner && view.tokenCounter === undefined) return ''
    const ends = view.nowSeconds + linkSeconds
    const counter = seen.isOwner ? view.tokenCounter : undefined
    const version = seen.isOwner ? none : seen.passwordVersion
    const name = `${folderId} ${ends} ${counter} ${version.length === 0 ? '' : hex(version)}`
    const known = this.#capabilities.get(name)
    if (known !== undefined) return known
    const text = `?c=${signCapability(this.#key, {
      folderId,
      ends,
      ownerTokenCounter: counter,
      passwordVersion: version,
    })}`
    this.#capabilities.set(name, text)
    return text
  }
}

const none = new Uint8Array(0)
const noServers: readonly string[] = []
const noChildren: Readonly<Record<string, ItemShape>> = {}
/** The bytes that a folder in a listing usually takes. */
const usualItemBytes = 400
const noPlaces: readonly number[] = []

/** `metadata` of a listing. */
export function presentPage(page: { page: number; pageSize: number; totalCount: number }) {
  const totalPages = Math.ceil(page.totalCount / page.pageSize)
  return {
    page: page.page,
    pageSize: page.pageSize,
    totalCount: page.totalCount,
    totalPages,
    hasNextPage: page.page < totalPages,
  }
}
