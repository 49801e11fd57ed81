/**
 * The members of an item, in the order of answers: of which items, their value, and what the API's
 * document says. Answers and documents are made from this table. `file-rows.ts` writes the same
 * members for the files of a listing by hand, and a test compares both.
 *
 * A new field of the message `Item` needs an entry here or in `Inner`; else types do not match.
 */
import type { Item } from '@holdfast/wire'
import { type TSchema, Type } from '@sinclair/typebox'
import { type JsonWriter, textBytesMax } from './json-writer.ts'

export type ItemShape = Record<string, unknown>

/** An item, and what only its presenter knows. */
export interface PresentedItem {
  item: Item
  /** Nodes that have a file now, nearest first. */
  servers: readonly string[]
  link: string
  directLinks: Record<string, ItemShape> | undefined
  children: Readonly<Record<string, ItemShape>>
}

interface ItemMember {
  of: 'files' | 'folders' | 'all'
  /** Also of an item that the viewer may see but not open. */
  ofLocked: boolean
  /**
   * A text that the account's owner writes: its length counts where answers are measured. Others
   * have about the same size in all items.
   */
  isText: boolean
  /** @returns undefined: this item has no such member. */
  value(presented: PresentedItem): unknown
  document: TSchema
}

/** Fields of `Item` under another name, or that no client sees. */
type Inner = 'isFolder' | 'isPublic' | 'blob' | 'passwordVersion' | 'hasChildren'

type MemberName =
  | Exclude<keyof Item, Inner>
  | 'type'
  | 'public'
  | 'md5'
  | 'servers'
  | 'serverSelected'
  | 'link'

const all = { of: 'all', ofLocked: false, isText: false } as const
const files = { of: 'files', ofLocked: false, isText: false } as const
const folders = { of: 'folders', ofLocked: false, isText: false } as const
const locked = { of: 'all', ofLocked: true, isText: false } as const
const text = { isText: true } as const

const time = (description: string) => Type.Integer({ description: `${description}, Unix seconds` })
const optional = (document: TSchema) => Type.Optional(document)

const members: Record<MemberName, ItemMember> = {
  id: { ...locked, value: ({ item }) => item.id, document: Type.String({ format: 'uuid' }) },
  type: {
    ...locked,
    value: ({ item }) => (item.isFolder ? 'folder' : 'file'),
    document: Type.String({ enum: ['file', 'folder'] }),
  },
  name: { ...locked, ...text, value: ({ item }) => item.name, document: Type.String() },
  parentFolder: {
    ...all,
    value: ({ item }) => item.parentFolder,
    document: optional(Type.String({ format: 'uuid' })),
  },
  parentFolderCode: {
    ...files,
    value: ({ item }) => item.parentFolderCode,
    document: optional(Type.String({ description: 'Answers to uploads: share code of the folder' })),
  },
  code: {
    ...locked,
    value: ({ item }) => item.code,
    document: optional(Type.String({ description: 'Share code' })),
  },
  public: {
    ...folders,
    value: ({ item }) => item.isPublic,
    document: optional(Type.Boolean({ description: 'Folders' })),
  },
  isOwner: { ...locked, value: ({ item }) => item.canAccess && item.isOwner, document: Type.Boolean() },
  canAccess: { ...locked, value: ({ item }) => item.canAccess, document: Type.Boolean() },
  isRoot: {
    ...folders,
    value: ({ item }) => item.isRoot || undefined,
    document: optional(Type.Boolean({ description: 'The root folder' })),
  },
  createTime: { ...all, value: ({ item }) => item.createTime, document: optional(time('Created')) },
  modTime: { ...all, value: ({ item }) => item.modTime, document: optional(time('Changed')) },
  size: {
    ...files,
    value: ({ item }) => item.size,
    document: optional(Type.Integer({ description: 'Files; bytes' })),
  },
  md5: {
    ...files,
    value: ({ item }) => item.blob?.id.toString('hex', 0, 16) ?? '',
    document: optional(Type.String({ description: 'Files; hex' })),
  },
  mimetype: {
    ...files,
    value: ({ item }) => item.mimetype,
    document: optional(Type.String({ description: 'Files' })),
  },
  downloads: {
    ...files,
    value: ({ item }) => item.downloads,
    document: optional(Type.Integer({ description: 'Files' })),
  },
  description: {
    ...folders,
    ...text,
    value: ({ item }) => item.description || undefined,
    document: optional(Type.String({ description: 'Folders; markdown' })),
  },
  tags: {
    ...all,
    ...text,
    value: ({ item }) => item.tags || undefined,
    document: optional(Type.String({ description: 'Comma-separated' })),
  },
  password: {
    ...folders,
    ofLocked: true,
    value: ({ item }) => hasPassword(item) || undefined,
    document: optional(Type.Boolean({ description: 'Folders: one is set' })),
  },
  passwordStatus: {
    ...folders,
    ofLocked: true,
    value: ({ item }) => (hasPassword(item) ? passwordStatusOf(item) : undefined),
    document: optional(Type.String({ enum: ['passwordOk', 'passwordRequired', 'passwordWrong'] })),
  },
  expiry: {
    ...all,
    value: ({ item }) => item.expiry,
    document: optional(time('Folders; answers to uploads where lifetimes are in force')),
  },
  idleExpiry: {
    ...files,
    value: ({ item }) => item.idleExpiry,
    document: optional(time('Answers to uploads where files without downloads are deleted')),
  },
  deleteAfterExpiry: {
    ...folders,
    value: ({ item }) => item.deleteAfterExpiry,
    document: optional(Type.Boolean({ description: 'Folders; to the owner' })),
  },
  childrenCount: {
    ...folders,
    value: ({ item }) => item.childrenCount,
    document: optional(Type.Integer({ description: 'Folders' })),
  },
  children: {
    ...folders,
    value: ({ children }) => children,
    document: optional(mapOf('Folders: items keyed by UUID, in order')),
  },
  servers: {
    ...files,
    value: ({ servers }) => servers,
    document: optional(Type.Array(Type.String(), { description: 'Files: nodes that hold it now' })),
  },
  serverSelected: {
    ...files,
    value: ({ servers }) => servers[0],
    document: optional(Type.String({ description: 'Files' })),
  },
  link: {
    ...files,
    value: ({ link }) => link,
    document: optional(Type.String({ format: 'uri', description: 'Files: download URL' })),
  },
  recycledTime: {
    ...all,
    value: ({ item }) => item.recycledTime,
    document: optional(time('In the recycle bin: moved there')),
  },
  directLinks: {
    ...all,
    value: ({ directLinks }) => directLinks,
    document: optional(mapOf('To the owner: direct links keyed by id')),
  },
}

/** The document of an item. */
export const itemDocument = Object.fromEntries(
  Object.entries(members).map(([name, { document }]) => [name, document]),
)

const table = Object.entries(members).map(([name, member]) => ({
  ...member,
  name,
  /** What stands before the value. */
  lead: Buffer.from(`"${name}":`),
}))
const openFile = table.filter(({ of }) => of !== 'folders')
const openFolder = table.filter(({ of }) => of !== 'files')
const lockedItem = table.filter(({ ofLocked }) => ofLocked)

const texts = table.filter(({ isText }) => isText).map(({ name }) => name as keyof Item)

/** Bytes of what the account's owner wrote about an item: its name, tags and the like. */
export function ownerTextBytes(item: Item): number {
  let bytes = 0
  for (const name of texts) {
    const text = item[name]
    if (typeof text === 'string') bytes += Buffer.byteLength(text)
  }
  return bytes
}

function membersOf({ canAccess, isFolder }: Item) {
  if (!canAccess) return lockedItem
  return isFolder ? openFolder : openFile
}

export function shapeOf(presented: PresentedItem): ItemShape {
  const shape: ItemShape = {}
  for (const { name, value: read } of membersOf(presented.item)) {
    const value = read(presented)
    if (value !== undefined) shape[name] = value
  }
  return shape
}

/**
 * Writes the JSON of `shapeOf`. Its object, and the text of that, would be most of the garbage of a
 * page of 1,000 folders.
 */
export function writeShape(json: JsonWriter, presented: PresentedItem): void {
  json.text('{')
  let isFirst = true
  for (const { lead, value: read } of membersOf(presented.item)) {
    const value = read(presented)
    if (value === undefined) continue
    json.reserve(1 + lead.length + valueBytesMax)
    if (!isFirst) json.comma()
    isFirst = false
    json.raw(lead)
    if (typeof value === 'number') json.number(value)
    else if (typeof value === 'boolean') json.raw(value ? yes : no)
    else if (typeof value === 'string' && value.length <= plainCharactersMax) json.string(value)
    else json.text(JSON.stringify(value))
  }
  json.text('}')
}

const yes = Buffer.from('true')
const no = Buffer.from('false')
/** Longer texts are rare: they reserve their own room. */
const plainCharactersMax = 256
const valueBytesMax = textBytesMax(plainCharactersMax)

function hasPassword(item: Item): boolean {
  return item.password || (!item.canAccess && item.passwordStatus !== undefined)
}

function passwordStatusOf({ canAccess, passwordStatus }: Item): string {
  return canAccess ? 'passwordOk' : (passwordStatus ?? 'passwordRequired')
}

function mapOf(description: string): TSchema {
  return Type.Object({}, { additionalProperties: true, description })
}
