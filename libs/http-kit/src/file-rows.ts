/**
 * Files of a listing as JSON text, straight from the columns in which an account sends them: no object a file is made, in the
 * account's answer or here. What a file's members are and in which order is `ItemPresenter`'s to say; a test holds both together.
 */
import type { FileColumns } from '@holdfast/wire'

/** What all files of one folder share. */
export interface RowFacts {
  folderId: string
  isOwner: boolean
  downloadUrl: string
  /** `?c=…` or empty. */
  capability: string
  /** @param createdMs no later than this the copies were made, Unix ms */
  serversOf: (placementGroup: number, createdMs: number) => readonly string[]
  nowSeconds: number
}

/** The nodes that hold files older than this are asked for once a page and group, of younger ones once a second of their making: copies take seconds. */
const settledSeconds = 60

const plainJson = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/
const plainUrl = /^[A-Za-z0-9_.!~*'()-]*$/

/** `"<id>":{…}` of each file, in order. */
export function fileRows(files: FileColumns, facts: RowFacts): string[] {
  const ids = files.ids.toString('hex')
  const md5s = files.md5s.toString('hex')
  const codes = files.codes.toString('latin1')
  const mimetypes = files.mimetypes.map(quoted)
  const settled = facts.nowSeconds - settledSeconds
  const servers = new Map<number, Map<number, string>>()
  const serversAt = (group: number, created: number) => {
    const moment = Math.max(created, settled)
    const known = servers.get(group)?.get(moment)
    if (known !== undefined) return known
    const text = serversText(facts.serversOf(group, copiesMadeBy(moment)))
    servers.set(group, (servers.get(group) ?? new Map<number, string>()).set(moment, text))
    return text
  }
  const parent = `,"parentFolder":${quoted(facts.folderId)}`
  const viewer = `,"isOwner":${facts.isOwner},"canAccess":true`
  const link = `,"link":${quoted(`${facts.downloadUrl}/download/`).slice(0, -1)}`
  const rows: string[] = []
  let nameAt = 0
  for (let row = 0, count = files.ids.length / 16; row < count; row++) {
    const id = uuidIn(ids, row * 32)
    const nameEnd = nameAt + files.nameLengths.readUInt16LE(row * 2)
    const name = files.names.slice(nameAt, nameEnd)
    nameAt = nameEnd
    const group = files.placementGroups.readUInt32LE(row * 4)
    const created = files.createTimes.readDoubleLE(row * 8)
    const holders = serversAt(group, created)
    const modified = files.modTimes.readDoubleLE(row * 8)
    const size = files.sizes.readDoubleLE(row * 8)
    const md5 = md5s.slice(row * 32, row * 32 + 32)
    const mimetype = mimetypes[files.mimetypeIndexes.readUInt16LE(row * 2)]
    const downloads = files.downloads.readDoubleLE(row * 8)
    const named = `"${id}":{"id":"${id}","type":"file","name":${quoted(name)}${parent}${codeIn(codes, row * 8)}`
    const dated = `${viewer},"createTime":${created},"modTime":${modified},"size":${size}`
    const stored = `,"md5":"${md5}","mimetype":${mimetype},"downloads":${downloads}${holders}`
    rows.push(`${named}${dated}${stored}${link}${id}/${inUrl(name)}${facts.capability}"}`)
  }
  return rows
}

function uuidIn(hex: string, at: number): string {
  const part = (start: number, end: number) => hex.slice(at + start, at + end)
  return `${part(0, 8)}-${part(8, 12)}-${part(12, 16)}-${part(16, 20)}-${part(20, 32)}`
}

function quoted(text: string): string {
  return plainJson.test(text) ? `"${text}"` : JSON.stringify(text)
}

function inUrl(name: string): string {
  return plainUrl.test(name) ? name : encodeURIComponent(name)
}

/** A file's copies are there before the file is: by the end of its second, Unix ms. */
export function copiesMadeBy(createTime: number): number {
  return (createTime + 1) * 1_000
}

/** Share codes have 8 characters, 6 on legacy folders, none on what predates them; the rest is zeros. */
function codeIn(codes: string, at: number): string {
  const code = codes.slice(at, at + 8)
  return code.startsWith('\0') ? '' : `,"code":"${code.endsWith('\0') ? code.slice(0, 6) : code}"`
}

/** `serverSelected` is missing where there is no server. */
function serversText(servers: readonly string[]): string {
  return `,${JSON.stringify({ servers, serverSelected: servers[0] }).slice(1, -1)}`
}
