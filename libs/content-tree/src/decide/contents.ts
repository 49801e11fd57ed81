/** Commands on single contents: new folders and changed attributes. */
import { isDescription, isName, isTime, timeMax } from '@holdfast/kernel'
import type {
  AddLegacyFolder,
  CreateFolder,
  Event,
  FileAdded,
  FolderAdded,
  Item,
  UpdateContent,
} from '@holdfast/wire'
import { attributesOf } from '../attributes.ts'
import { treeDepthMax } from '../bounds.ts'
import type { Outcome } from '../contract.ts'
import { blankItem } from '../reading/reader-view.ts'
import { savedNoteBytes, savedRowBytes, savedTextBytes } from '../tree/saved-bytes.ts'
import type { Tree } from '../tree/tree.ts'
import { areTags } from './check.ts'
import { latestExpiry } from './lifetimes.ts'
import { isRefusal, type RequestContext, refuse } from './request-context.ts'

type Events = NonNullable<Event['event']>[]

/** What a new item has of its event, whether file or folder. */
export function commonOf(added: FileAdded | FolderAdded): Partial<Item> {
  return {
    id: added.id,
    name: added.name,
    parentFolder: added.parentId,
    code: added.code === '' ? undefined : added.code,
    createTime: added.createTime,
    modTime: added.modTime,
    isOwner: true,
  }
}

export function createFolder(context: RequestContext, command: CreateFolder): Outcome {
  if (command.name !== undefined && !isName(command.name)) return refuse('error-folderName')
  if (command.modTime !== undefined && !isTime(command.modTime)) return refuse('error-modTime')
  const parent = context.destination(command.parentFolderId, 'parentFolderId')
  if (isRefusal(parent)) return refuse(parent.status)
  const more = { contents: 1, bytes: 0, metadata: metadataOfFolder(command.name) }
  if (context.tree.depthOf(parent) + 1 > treeDepthMax || !context.fits(more)) return refuse('error-limits')
  const missing = context.missingCodes(1)
  if (missing !== undefined) return missing
  const ids = context.newIds()
  const code = ids.code()
  const inherited = context.inherited(parent)
  const folder: FolderAdded = {
    id: context.inputs.newId(),
    parentId: context.tree.idOf(parent),
    name: command.name ?? code,
    code,
    createTime: context.now,
    modTime: command.modTime ?? context.now,
    ...inherited,
    isPublic: command.isPublic ?? inherited.isPublic,
  }
  return folderMade(context, folder, { codesUsed: 1 })
}

function metadataOfFolder(name: string | undefined): number {
  return savedRowBytes.content + savedTextBytes(name ?? '')
}

/** A folder as it was made before share codes had eight characters, or before there were any. */
export function addLegacyFolder(context: RequestContext, command: AddLegacyFolder): Outcome {
  const { viewer, tree, inputs, settings } = context
  if (viewer.kind !== 'operator' && viewer.kind !== 'system') return refuse('error-notOwner')
  if (command.name !== undefined && !isName(command.name)) return refuse('error-folderName')
  const more = { contents: 1, bytes: 0, metadata: metadataOfFolder(command.name) }
  if (!context.fits(more)) return refuse('error-limits')
  const needed = command.noCode ? 0 : 1
  if (inputs.legacyCodes.end - inputs.legacyCodes.next < needed) return { kind: 'needs', legacyCodes: needed }
  const code = command.noCode ? '' : settings.legacyCodes.code(inputs.legacyCodes.next)
  const id = context.inputs.newId()
  const folder: FolderAdded = {
    id,
    parentId: tree.idOf(tree.root),
    name: command.name ?? (code === '' ? id.slice(0, 8) : code),
    code,
    createTime: context.now,
    modTime: context.now,
    ...context.inherited(tree.root),
    isPublic: !command.noCode,
  }
  return folderMade(context, folder, { legacyCodesUsed: needed })
}

function folderMade(
  context: RequestContext,
  folder: FolderAdded,
  used: { codesUsed?: number; legacyCodesUsed?: number },
): Outcome {
  const item: Item = {
    ...blankItem(),
    ...commonOf(folder),
    isFolder: true,
    isPublic: folder.isPublic,
    password: folder.password !== undefined,
    expiry: folder.expiry,
    deleteAfterExpiry: folder.expiry === undefined ? undefined : false,
  }
  return context.changed([{ $case: 'folderAdded', value: folder }], context.contentView(item), used)
}

type AttributeUpdate = NonNullable<UpdateContent['attribute']>

export function updateContent(context: RequestContext, command: UpdateContent): Outcome {
  const { attribute: sent, contentId } = command
  if (sent === undefined) return refuse('error-attribute')
  if (!isGoodValue(sent, context.now)) return refuse(`error-${attributeName(sent)}`)
  const row = context.own(contentId)
  if (isRefusal(row)) return refuse(row.status)
  const { tree } = context
  if (!tree.isFolder(row) && attributesOf[sent.$case] === 'folders') return refuse('error-attribute')
  if (row === tree.root && sent.$case === 'expiry') return refuse('error-rootFolder')
  const attribute = sent.$case === 'expiry' ? withinLifetime(context, row, sent) : sent
  if (!context.growthFits(growthOf(tree, row, attribute))) return refuse('error-limits')
  const id = tree.idOf(row)
  const item = changedItem(context.owners().item(row), attribute)
  const events: Events = [{ $case: 'attributeSet', value: { id, attribute, time: context.now } }]
  // A folder that predates share codes gets one when it can be shared.
  if (attribute.$case !== 'isPublic' || !attribute.value || tree.codeOf(row) !== undefined)
    return context.changed(events, context.contentView(item))
  const missing = context.missingCodes(1)
  if (missing !== undefined) return missing
  item.code = context.newIds().code()
  const coded = { id, attribute: { $case: 'code', value: item.code } as const, time: context.now }
  events.unshift({ $case: 'attributeSet', value: coded })
  return context.changed(events, context.contentView(item), { codesUsed: 1 })
}

/** No expiry is later than the longest lifetime, and none means the latest. */
function withinLifetime(
  context: RequestContext,
  folder: number,
  sent: Extract<AttributeUpdate, { $case: 'expiry' }>,
): typeof sent {
  const latest = latestExpiry(context, folder)
  if (latest === undefined) return sent
  return { ...sent, value: { ...sent.value, expiry: Math.min(sent.value.expiry ?? latest, latest) } }
}

/** Bytes of metadata that a new value adds. */
function growthOf(tree: Tree, row: number, attribute: AttributeUpdate): number {
  switch (attribute.$case) {
    case 'name':
      return savedTextBytes(attribute.value) - savedTextBytes(tree.contents.names[row] as string)
    case 'description':
    case 'tags':
      return savedNoteBytes(attribute.value) - savedNoteBytes(tree.sparse.notes[attribute.$case].get(row))
    case 'password':
      return attribute.value.verifier === undefined ? 0 : savedRowBytes.password
    case 'isPublic':
    case 'expiry':
    case 'modTime':
      return 0
  }
}

/** As the contract names it. */
function attributeName(attribute: AttributeUpdate): string {
  return attribute.$case === 'isPublic' ? 'public' : attribute.$case
}

function isGoodValue(attribute: AttributeUpdate, now: number): boolean {
  switch (attribute.$case) {
    case 'name':
      return isName(attribute.value)
    case 'description':
      return isDescription(attribute.value)
    case 'tags':
      return areTags(attribute.value)
    case 'modTime':
      return isTime(attribute.value)
    case 'expiry': {
      const { expiry } = attribute.value
      return expiry === undefined || (Number.isSafeInteger(expiry) && expiry > now && expiry <= timeMax)
    }
    case 'isPublic':
    case 'password':
      return true
  }
}

/** The item after the change. */
function changedItem(item: Item, attribute: AttributeUpdate): Item {
  switch (attribute.$case) {
    case 'name':
      return { ...item, name: attribute.value }
    case 'description':
      return { ...item, description: attribute.value || undefined }
    case 'tags':
      return { ...item, tags: attribute.value || undefined }
    case 'isPublic':
      return { ...item, isPublic: attribute.value }
    case 'password':
      return { ...item, password: attribute.value.verifier !== undefined }
    case 'expiry': {
      const { expiry, deleteAfterExpiry } = attribute.value
      const consent = expiry === undefined ? undefined : deleteAfterExpiry
      return { ...item, expiry, deleteAfterExpiry: consent }
    }
    case 'modTime':
      return { ...item, modTime: attribute.value }
  }
}
