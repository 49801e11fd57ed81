/** Uploads: the early hint, and the file that arrives. */
import { isName, isTime } from '@holdfast/kernel'
import type { AddFile, CheckUpload, Event, FileAdded, FolderAdded, Item, Refusal } from '@holdfast/wire'
import type { AccountRecord } from '../account/record.ts'
import type { Outcome } from '../contract.ts'
import type { NewIds } from '../new-ids.ts'
import { blankItem } from '../reading/reader-view.ts'
import { savedRowBytes, savedTextBytes } from '../tree/saved-bytes.ts'
import { newAccount } from './account.ts'
import { commonOf } from './contents.ts'
import { endsOfNew, newExpiry } from './lifetimes.ts'
import { answer, done, isRefusal, type RequestContext, refusal, refuse } from './request-context.ts'

type Events = NonNullable<Event['event']>[]

/**
 * An upload. Without a folder a new public one is made at the root; without any token the account
 * is made first.
 */
export function addFile(context: RequestContext, command: AddFile): Outcome {
  if (command.blob === undefined || !isName(command.name)) return refuse('error-file')
  if (command.modTime !== undefined && !isTime(command.modTime)) return refuse('error-modTime')
  if (command.createAccount !== undefined) return firstUpload(context, command)
  const ids = context.newIds()
  const { folderId, blob } = command
  const row = placeFor(context, { folderId, bytes: blob.size, metadata: metadataOf(command) })
  if (isRefusal(row)) return refuse(row.status)
  if (folderId === undefined) {
    const inherited = { ...context.inherited(row), isPublic: true }
    return uploadIntoNewFolder(context, command, { ids, rootId: context.tree.idOf(row), inherited })
  }
  const missing = context.missingCodes(1)
  if (missing !== undefined) return missing
  const file = newFile(context, command, { ids, parentId: context.tree.idOf(row) })
  return addUpload(context, [{ $case: 'fileAdded', value: file }], {
    file,
    ends: context.tree.endsOf(row),
    folderCode: context.tree.codeOf(row),
    codesUsed: ids.codesUsed,
  })
}

/** Only a hint: the same rules run again when the file arrives, and those decide. */
export function checkUpload(context: RequestContext, { folderId }: CheckUpload): Outcome {
  const row = placeFor(context, { folderId, bytes: 0, metadata: savedRowBytes.content })
  return isRefusal(row) ? refuse(row.status) : answer(done)
}

/**
 * The rules of the hint and of the upload, in one place, so that they refuse the same.
 *
 * @param file.metadata its saved bytes; those of a new folder are added here.
 * @returns the folder of the file. Without `folderId` it is the root, in which a new one is made.
 */
function placeFor(
  context: RequestContext,
  { folderId, bytes, metadata }: { folderId: string | undefined; bytes: number; metadata: number },
): number | Refusal {
  const { tree, viewer } = context
  const makesFolder = folderId === undefined
  if (makesFolder && !viewer.isOwner) return refusal('error-notOwner')
  const row = makesFolder ? tree.root : context.destination(folderId, 'folderId')
  if (isRefusal(row)) return row
  if (!context.mayUpload) return refusal('error-forbidden')
  const more = makesFolder
    ? { contents: 2, bytes, metadata: metadata + savedRowBytes.content }
    : { contents: 1, bytes, metadata }
  return context.fits(more) ? row : refusal('error-limits')
}

function firstUpload(context: RequestContext, command: AddFile): Outcome {
  const ids = context.newIds()
  const { createAccount, blob } = command
  if (createAccount === undefined || blob === undefined) return refuse('error-file')
  const { rootId, events, record } = newAccount(context, createAccount)
  if (!context.settings.guestUploads) return refuse('error-forbidden')
  const limits = context.settings.tiers[record.tier]
  if (limits.contents !== undefined && limits.contents < 2) return refuse('error-limits')
  if (limits.storage !== undefined && limits.storage < blob.size) return refuse('error-limits')
  const inherited = { isPublic: true, password: undefined, expiry: newExpiry(context, undefined, record) }
  return uploadIntoNewFolder(context, command, { ids, rootId, inherited, events, record })
}

function uploadIntoNewFolder(
  context: RequestContext,
  command: AddFile,
  parts: {
    ids: NewIds
    rootId: string
    inherited: ReturnType<RequestContext['inherited']>
    events?: Events
    record?: AccountRecord
  },
): Outcome {
  const { ids, rootId, inherited, events = [], record } = parts
  const missing = context.missingCodes(2)
  if (missing !== undefined) return missing
  const code = ids.code()
  const folder: FolderAdded = {
    id: context.inputs.newId(),
    parentId: rootId,
    name: code,
    code,
    createTime: context.now,
    modTime: context.now,
    ...inherited,
  }
  const file = newFile(context, command, { ids, parentId: folder.id })
  return addUpload(
    context,
    [...events, { $case: 'folderAdded', value: folder }, { $case: 'fileAdded', value: file }],
    {
      file,
      ends: folder.expiry,
      folderCode: code,
      codesUsed: ids.codesUsed,
      ...(record === undefined ? {} : { record }),
    },
  )
}

/** Saved bytes of a new file, its blob included. */
function metadataOf({ name, mimetype }: AddFile): number {
  return savedRowBytes.content + savedRowBytes.blob + savedTextBytes(name) + savedTextBytes(mimetype)
}

function newFile(
  context: RequestContext,
  command: AddFile,
  { ids, parentId }: { ids: NewIds; parentId: string },
): FileAdded {
  return {
    id: context.inputs.newId(),
    parentId,
    name: command.name,
    code: ids.code(),
    createTime: context.now,
    modTime: command.modTime ?? context.now,
    mimetype: command.mimetype,
    blob: command.blob,
  }
}

function addUpload(
  context: RequestContext,
  events: Events,
  {
    file,
    ends,
    folderCode,
    codesUsed,
    record,
  }: {
    file: FileAdded
    /** The earliest expiry of the folders above it. */
    ends: number | undefined
    folderCode: string | undefined
    codesUsed: number
    record?: AccountRecord
  },
): Outcome {
  const { blob } = file
  const item: Item = {
    ...blankItem(),
    ...commonOf(file),
    size: blob?.size ?? 0,
    mimetype: file.mimetype,
    blob,
    parentFolderCode: folderCode,
    ...endsOfNew(context, ends, record ?? context.account.known),
  }
  const uses = blob === undefined || context.tree.blobs.isUsed(blob) ? [] : [blob]
  return context.changed(events, context.contentView(item, undefined, record), { uses, codesUsed })
}
