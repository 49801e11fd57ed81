/**
 * Copy and import. Own contents are named; those of other accounts come as manifests, filtered by
 * their owners' actors.
 */
import { isName } from '@holdfast/kernel'
import type { Blob, ContentsCopied, CopyContents, CopySource, Manifest, Refusal } from '@holdfast/wire'
import { contentsMax, rowsPerSlice, treeDepthMax } from '../bounds.ts'
import type { Outcome } from '../contract.ts'
import type { PreparedIds } from '../copy.ts'
import { savedNotesBytes, savedRowBytes, savedTextBytes } from '../tree/saved-bytes.ts'
import { isList } from './check.ts'
import { newExpiries } from './lifetimes.ts'
import { inSlices, isRefusal, type RequestContext, type Result, refuse } from './request-context.ts'

/** Ids of copies are made in slices of this number: about two milliseconds each. */
const idsPerSlice = 256

interface CopySize {
  contents: number
  bytes: number
  /** Levels of folders. */
  height: number
  leftOut: string[]
}

/** @param prepared receives the ids of the copies, for when they are applied. */
export function copyContents(
  context: RequestContext,
  command: CopyContents,
  prepared: (ids: PreparedIds) => void,
): Outcome {
  if (!isList(command.sources.map((source) => source.contentId))) return refuse('error-contentsId')
  const sources = eachOnce(command.sources)
  const { tree, viewer } = context
  const rows = ownRows(context, sources)
  if (isRefusal(rows)) return refuse(rows.status)
  const folderId = command.folderId ?? tree.idOf(tree.root)
  const target = context.visible(folderId)
  if (isRefusal(target)) return refuse(target.status)
  if (!viewer.isOwner) return refuse('error-notOwner')
  const folder = context.destination(folderId, 'folderId')
  if (isRefusal(folder)) return refuse(folder.status)
  if (rows.includes(tree.root)) return refuse('error-rootFolder')
  if (!sources.every((source) => source.manifest === undefined || isManifest(source.manifest)))
    return refuse('error-contentsId')

  const parts = sources.map((source, index) =>
    source.manifest === undefined ? measureOwn(context, rows[index] as number) : measure(source.manifest),
  )
  const sizes = parts.map((part) => part.contents)
  const contents = sum(sizes)
  const bytes = sum(parts.map((part) => part.bytes))
  const height = Math.max(...parts.map((part) => part.height))
  if (
    tree.depthOf(folder) + height > treeDepthMax ||
    contents > contentsMax ||
    !context.fits({ contents, bytes, metadata: contents * savedRowBytes.content })
  )
    return refuse('error-limits')
  const missing = context.missingCodes(contents)
  if (missing !== undefined) return missing

  const expiries = newExpiries(context)
  const event: ContentsCopied = {
    sources: sources.map((source, index) => ({
      contentId: source.manifest === undefined ? tree.idOf(rows[index] as number) : source.contentId,
      manifest: source.manifest,
    })),
    folderId: tree.idOf(folder),
    time: context.now,
    leftOut: [...new Set(parts.flatMap((part) => part.leftOut))],
    ...context.inherited(folder),
    ownExpiry: expiries.usual,
    latestExpiry: expiries.latest,
  }
  return inSlices(addCopies(context, { event, sizes, uses: newBlobs(context, sources), prepared }))
}

function eachOnce(sources: readonly CopySource[]): CopySource[] {
  return [...new Map(sources.map((source) => [source.contentId.toLowerCase(), source])).values()]
}

function* addCopies(
  context: RequestContext,
  {
    event,
    sizes,
    uses,
    prepared,
  }: { event: ContentsCopied; sizes: number[]; uses: Blob[]; prepared: (ids: PreparedIds) => void },
): Generator<void, Outcome> {
  if (!(yield* metadataFits(context, { event, uses }))) return refuse('error-limits')
  const contents = sum(sizes)
  const made = context.newIds()
  const ids: string[] = []
  const codes: string[] = []
  while (ids.length < contents) {
    const some = made.both(Math.min(idsPerSlice, contents - ids.length))
    ids.push(...some.ids)
    codes.push(...some.codes)
    if (ids.length < contents) yield
  }
  prepared({ seed: context.inputs.seed, codeStart: context.inputs.codes.next, ids, codes })
  const pairs: string[] = []
  let start = 0
  for (const [index, source] of event.sources.entries()) {
    pairs.push(source.contentId, ids[start] as string)
    start += sizes[index] as number
  }
  const result = () => decideCopies(context, pairs)
  return context.changed([{ $case: 'contentsCopied', value: event }], result, { uses, codesUsed: contents })
}

/** Counted row by row only where the sources might be too much. */
function* metadataFits(
  context: RequestContext,
  { event, uses }: { event: ContentsCopied; uses: readonly Blob[] },
): Generator<void, boolean> {
  const { tree, metadataLeft } = context
  let left = metadataLeft - uses.length * savedRowBytes.blob
  let looked = 0
  for (const { manifest } of event.sources)
    for (const entry of manifest?.entries ?? []) {
      left -= metadataOf(entry)
      if (++looked % rowsPerSlice === 0) yield
    }
  const own = event.sources.filter(({ manifest }) => manifest === undefined)
  if (own.length * tree.savedBytes <= left) return true
  const open = own.map(({ contentId }) => tree.find(contentId))
  const leftOut = new Set(event.leftOut.map((id) => tree.find(id)))
  for (let row = open.pop(); row !== undefined && left >= 0; row = open.pop()) {
    left -= tree.savedBytesOf(row)
    if (!tree.isFolder(row)) continue
    for (const file of tree.fileRows(row)) {
      left -= tree.savedBytesOf(file)
      if (left < 0) return false
      if (++looked % rowsPerSlice === 0) yield
    }
    for (const folder of tree.folderRows(row)) if (!leftOut.has(folder)) open.push(folder)
    if (++looked % rowsPerSlice === 0) yield
  }
  return left >= 0
}

function metadataOf(entry: Manifest['entries'][number]): number {
  return (
    savedRowBytes.content +
    savedTextBytes(entry.name) +
    savedTextBytes(entry.mimetype) +
    savedNotesBytes(entry)
  )
}

/** Rows of the named sources in this account; -1 for manifests. Recycled content does not count. */
function ownRows(context: RequestContext, sources: readonly CopySource[]): number[] | Refusal {
  const rows: number[] = []
  for (const source of sources) {
    const row = source.manifest === undefined ? context.visible(source.contentId) : -1
    if (isRefusal(row)) return row
    rows.push(row)
  }
  return rows
}

/** Descendants that are expired now are left out, each with everything below. */
function measureOwn({ tree, now }: RequestContext, top: number): CopySize {
  const totals = tree.totalsOf(top)
  const measured: CopySize = {
    contents: totals.files + totals.folders,
    bytes: totals.bytes,
    height: tree.isFolder(top) ? 1 : 0,
    leftOut: [],
  }
  let level = tree.isFolder(top) ? [top] : []
  for (let height = 1; level.length > 0; height++) {
    measured.height = height
    const next: number[] = []
    for (const folder of level.flatMap((above) => [...tree.folderRows(above)])) {
      const ends = tree.expiryOf(folder)
      if (ends === undefined || now < ends) {
        next.push(folder)
        continue
      }
      const left = tree.totalsOf(folder)
      measured.contents -= left.files + left.folders
      measured.bytes -= left.bytes
      measured.leftOut.push(tree.idOf(folder))
    }
    level = next
  }
  return measured
}

function measure({ entries }: Manifest): CopySize {
  const heights: number[] = []
  let bytes = 0
  for (const [index, entry] of entries.entries()) {
    bytes += entry.blob?.size ?? 0
    const above = index === 0 ? 0 : (heights[entry.parent] as number)
    heights.push(entry.isFolder ? above + 1 : above)
  }
  const height = heights.reduce((most, one) => Math.max(most, one), 0)
  return { contents: entries.length, bytes, height, leftOut: [] }
}

/** Parents come first and are folders; files have bytes, folders none. */
function isManifest({ entries }: Manifest): boolean {
  return (
    entries.length > 0 &&
    entries.length <= contentsMax &&
    entries.every(
      (entry, index) =>
        isName(entry.name) &&
        entry.isFolder === (entry.blob === undefined) &&
        (index === 0 || (entry.parent < index && entries[entry.parent]?.isFolder === true)),
    )
  )
}

/** Each once: blobs of the manifests that the account does not use yet. */
function newBlobs({ tree }: RequestContext, sources: readonly CopySource[]): Blob[] {
  const blobs = new Map<string, Blob>()
  for (const { manifest } of sources)
    for (const { blob } of manifest?.entries ?? [])
      if (blob !== undefined && !tree.blobs.isUsed(blob))
        blobs.set(`${blob.id.toString('latin1')}${blob.incarnation.toString('latin1')}`, blob)
  return [...blobs.values()]
}

/** @param pairs source, copy, source, copy, … */
export function decideCopies(context: RequestContext, pairs: readonly string[]): Result {
  const view = context.owners()
  const results = []
  for (let at = 0; at < pairs.length; at += 2) {
    const row = context.tree.find(pairs[at + 1] as string)
    const item = row < 0 ? undefined : view.item(row)
    results.push({ sourceId: pairs[at] as string, item })
  }
  return { $case: 'copy', value: { results } }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
