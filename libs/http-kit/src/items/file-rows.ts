/**
 * Writes files of a listing as JSON, straight from the columns in which an account sends them:
 * neither the account nor the host makes an object or a string per file. `item-members.ts`
 * defines the members of a file and their order; a test compares both.
 */
import type { FileColumns } from '@holdfast/wire'
import { type JsonWriter, numberBytesMax, uuidBytes, writtenNameBytesMax } from './json-writer.ts'

/** What all files of one folder share. */
export interface RowInfo {
  folderId: string
  isOwner: boolean
  downloadUrl: string
  /** `?c=…` or empty. */
  capability: string
  /** @param createdMs latest time at which the copies were made, Unix ms */
  serversOf: (placementGroup: number, createdMs: number) => readonly string[]
  nowSeconds: number
}

/**
 * The nodes that hold files older than this are looked up once per page and group; of younger ones
 * once per second of creation time: copying takes seconds.
 */
const settledSeconds = 60

const codeBytes = 8
const md5Bytes = 16

const idMember = Buffer.from('":{"id":"')
const codeMember = Buffer.from(',"code":"')
const modTimeMember = Buffer.from(',"modTime":')
const sizeMember = Buffer.from(',"size":')
const md5Member = Buffer.from(',"md5":"')
const downloadsMember = Buffer.from(',"downloads":')
const quote = Buffer.from('"')
const slash = Buffer.from('/')
const nameMember = Buffer.from('","type":"file","name":')

export class FileRows {
  readonly #count: number
  readonly #files: FileColumns
  readonly #info: RowInfo
  readonly #parent: Buffer
  readonly #viewer: Buffer
  readonly #mimetypes: Buffer[]
  readonly #end: Buffer
  /** The bytes of a row without its name, its mimetype and its servers. */
  readonly #fixedBytes: number
  /** By group, then time: the servers, and the link up to the id. */
  readonly #servers = new Map<number, Map<number, Buffer>>()
  readonly #nameLengths: DataView
  readonly #groups: DataView
  readonly #created: DataView
  readonly #modified: DataView
  readonly #sizes: DataView
  readonly #downloads: DataView
  readonly #types: DataView
  #row = 0
  #nameAt = 0

  constructor(files: FileColumns, info: RowInfo) {
    this.#count = files.ids.length / 16
    this.#files = files
    this.#info = info
    this.#parent = Buffer.from(`,"parentFolder":"${info.folderId}"`)
    this.#viewer = Buffer.from(`,"isOwner":${info.isOwner},"canAccess":true,"createTime":`)
    this.#mimetypes = files.mimetypes.map((type) => Buffer.from(`","mimetype":${JSON.stringify(type)}`))
    this.#end = Buffer.from(`${info.capability}"}`)
    this.#fixedBytes = this.#parent.length + this.#viewer.length + this.#end.length + plainBytes
    this.#nameLengths = viewOf(files.nameLengths)
    this.#groups = viewOf(files.placementGroups)
    this.#created = viewOf(files.createTimes)
    this.#modified = viewOf(files.modTimes)
    this.#sizes = viewOf(files.sizes)
    this.#downloads = viewOf(files.downloads)
    this.#types = viewOf(files.mimetypeIndexes)
  }

  /** Files not yet written. */
  get left(): number {
    return this.#count - this.#row
  }

  /** Approximate bytes of all rows. */
  get bytes(): number {
    return this.#count * (this.#fixedBytes + usualBytes) + this.#files.names.length * 2
  }

  /** Writes `"<id>":{…}` of the next file. */
  write(json: JsonWriter): void {
    const files = this.#files
    const row = this.#row++
    const nameEnd = this.#nameAt + this.#nameLengths.getUint16(row * 2, true)
    const name = files.names.slice(this.#nameAt, nameEnd)
    this.#nameAt = nameEnd
    const created = this.#created.getFloat64(row * 8, true)
    const mimetype = this.#mimetypes[this.#types.getUint16(row * 2, true)] as Buffer
    const servers = this.#serversAt(this.#groups.getUint32(row * 4, true), created)
    json.reserve(this.#fixedBytes + mimetype.length + servers.length + writtenNameBytesMax(name.length))
    json.raw(quote)
    const id = json.uuid(files.ids, row * 16)
    json.raw(idMember)
    json.uuidAgain(id)
    json.raw(nameMember)
    json.string(name)
    json.raw(this.#parent)
    this.#writeCode(json, row * codeBytes)
    json.raw(this.#viewer)
    json.number(created)
    json.raw(modTimeMember)
    json.number(this.#modified.getFloat64(row * 8, true))
    json.raw(sizeMember)
    json.number(this.#sizes.getFloat64(row * 8, true))
    json.raw(md5Member)
    json.hex(files.md5s, row * md5Bytes, md5Bytes)
    json.raw(mimetype)
    json.raw(downloadsMember)
    json.number(this.#downloads.getFloat64(row * 8, true))
    json.raw(servers)
    json.uuidAgain(id)
    json.raw(slash)
    json.urlPart(name)
    json.raw(this.#end)
  }

  /** Share codes have 8 characters, 6 on legacy folders, none on older files; the rest is zeros. */
  #writeCode(json: JsonWriter, at: number): void {
    const { codes } = this.#files
    if (codes[at] === 0) return
    json.raw(codeMember)
    json.part(codes, at, codes[at + codeBytes - 1] === 0 ? 6 : codeBytes)
    json.raw(quote)
  }

  #serversAt(group: number, created: number): Buffer {
    const { nowSeconds, serversOf, downloadUrl } = this.#info
    const moment = Math.max(created, nowSeconds - settledSeconds)
    const known = this.#servers.get(group)?.get(moment)
    if (known !== undefined) return known
    const servers = serversOf(group, copiesMadeBy(moment))
    // `serverSelected` is omitted where there is no server.
    const held = JSON.stringify({ servers, serverSelected: servers[0] }).slice(1, -1)
    const link = JSON.stringify(`${downloadUrl}/download/`).slice(0, -1)
    const bytes = Buffer.from(`,${held},"link":${link}`)
    this.#servers.set(group, (this.#servers.get(group) ?? new Map<number, Buffer>()).set(moment, bytes))
    return bytes
  }
}

/** The bytes of a mimetype and a few servers. */
const usualBytes = 150

/**
 * The bytes of a row's members with a maximum length: ids, code, numbers, md5, the names between.
 */
const plainBytes = 3 * uuidBytes + 4 * numberBytesMax + 2 * md5Bytes + codeBytes + 100

/** The latest time at which a file's copies were made: the end of the file's second, Unix ms. */
export function copiesMadeBy(createTime: number): number {
  return (createTime + 1) * 1_000
}

function viewOf(column: Uint8Array): DataView {
  return new DataView(column.buffer, column.byteOffset, column.byteLength)
}
