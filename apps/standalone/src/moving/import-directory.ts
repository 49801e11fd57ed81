/**
 * Copies an existing tree of the machine into a folder of an account, with names, times and
 * contents.
 *
 * Bytes are copied into the store's extents, so a file system cannot share them: an extent has many
 * files, each with headers and checksums in between. Equal contents are stored once.
 *
 * A repeated import continues: a folder of the same name in the same place is taken as it is, and a
 * file of the same name, size and time there is not read again.
 */
import type { Dirent, Stats } from 'node:fs'
import { constants, open, readdir, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { forEachOf } from '@holdfast/backup'
import { type BlobInfo, type BlobStore, pinMsMax } from '@holdfast/blob-store'
import { treeDepthMax } from '@holdfast/content-tree'
import { cleanUploadName, RefusalError } from '@holdfast/http-kit'
import type { JudgesContent } from '@holdfast/upload'
import type { Item } from '@holdfast/wire'
import type { AccountTree } from './account-tree.ts'
import { MoveFault } from './move-fault.ts'

/** Small files that are stored at the same time share a sync. */
const filesAtOnce = 32
const readBytes = 256 * 1024
/** Entries of each list of the report. */
const listedMax = 1_000

export interface ImportReport {
  account: string
  /** Where the directory is now. */
  folder: string
  folders: number
  /** Stored now. */
  files: number
  bytes: number
  /** Were there already. */
  present: number
  /** Not taken, without the bound of the list. */
  leftOutCount: number
  leftOut: { path: string; why: string }[]
  /** Names that the account cannot have, and what they are in it. */
  renamed: { path: string; name: string }[]
}

export interface ImportOptions {
  directory: string
  tree: AccountTree
  /** Absent: a folder in the root that has the directory's name. */
  folder: string | undefined
  blobs: BlobStore
  isBlocked: (blobId: Uint8Array) => boolean
  scans: JudgesContent
  signal: AbortSignal
  onProgress: (progress: ImportReport) => void
}

/** @throws MoveFault; the next import continues. */
export async function importDirectory(options: ImportOptions): Promise<ImportReport> {
  const { tree, directory } = options
  const stats = await statsOf(directory)
  const report: ImportReport = {
    ...{ account: tree.account, folder: '', folders: 0, files: 0, bytes: 0, present: 0 },
    ...{ leftOutCount: 0, leftOut: [], renamed: [] },
  }
  const work = new Import(options, report)
  report.folder = options.folder ?? (await work.folderFor(directory, stats))
  const depth = await tree.depthOf(report.folder)
  const isAdded = await work.takeAll(Buffer.from(directory), { folder: report.folder, depth })
  if (isAdded && options.folder === undefined) await tree.setTime(report.folder, secondsOf(stats))
  return report
}

/** @throws MoveFault: it is none, or it cannot be read */
export async function statsOf(directory: string): Promise<Stats> {
  const stats = await stat(directory).catch((error: Error) => {
    throw new MoveFault(`${directory} cannot be read: ${error.message}`, { cause: error })
  })
  if (!stats.isDirectory()) throw new MoveFault(`${directory} is no directory`)
  return stats
}

/** An entry that is not taken. */
class LeftOut {
  readonly why: string

  constructor(why: string) {
    this.why = why
  }
}

class Import {
  readonly #options: ImportOptions
  readonly #report: ImportReport

  constructor(options: ImportOptions, report: ImportReport) {
    this.#options = options
    this.#report = report
  }

  async folderFor(directory: string, stats: Stats): Promise<string> {
    const { tree } = this.#options
    const root = await tree.root()
    const there = await this.#present(root)
    const name = cleanUploadName(basename(directory))
    return there.takeFolder(name) ?? this.#make(root, { name, stats, path: directory })
  }

  /**
   * Depth first, so that no more than one directory of each level is in memory.
   * @param depth folders above this one, in the account
   * @returns whether the folder got something
   */
  async takeAll(path: Buffer, { folder, depth }: { folder: string; depth: number }): Promise<boolean> {
    const entries = await readdir(path, { withFileTypes: true, encoding: 'buffer' }).catch((error: Error) => {
      this.#leaveOut(path, error.message)
      return []
    })
    entries.sort((one, other) => Buffer.compare(one.name, other.name))
    const there = await this.#present(folder)
    const files = entries.filter((entry) => !entry.isDirectory())
    let isAdded = false
    await forEachOf(files, filesAtOnce, async (entry) => {
      if (await this.#takeEntry(path, { entry, folder, there })) isAdded = true
    })
    for (const entry of entries.filter((each) => each.isDirectory())) {
      this.#options.signal.throwIfAborted()
      const below = pathOf(path, entry)
      const stats = await stat(below).catch((error: Error) => this.#leaveOut(below, error.message))
      if (stats === undefined) continue
      const name = this.#nameOf(below, entry)
      const known = there.takeFolder(name)
      if (known === undefined && depth === treeDepthMax) {
        this.#leaveOut(below, `it would be deeper than ${treeDepthMax} folders`)
        continue
      }
      const id = known ?? (await this.#make(folder, { name, stats, path: below.toString() }))
      if (await this.takeAll(below, { folder: id, depth: depth + 1 }))
        await this.#options.tree.setTime(id, secondsOf(stats))
      isAdded ||= known === undefined
    }
    return isAdded
  }

  /** @returns whether it was added */
  async #takeEntry(
    directory: Buffer,
    { entry, folder, there }: { entry: Dirent<Buffer>; folder: string; there: ExistingItems },
  ): Promise<boolean> {
    this.#options.signal.throwIfAborted()
    const path = pathOf(directory, entry)
    try {
      if (!entry.isFile()) throw new LeftOut(entry.isSymbolicLink() ? 'a symbolic link' : 'no ordinary file')
      return await this.#takeFile(path, { name: this.#nameOf(path, entry), folder, there })
    } catch (error) {
      const why = whyLeftOut(error)
      if (why === undefined) throw this.#faultAt(path.toString(), error)
      this.#leaveOut(path, why)
      return false
    }
  }

  async #takeFile(
    path: Buffer,
    { name, folder, there }: { name: string; folder: string; there: ExistingItems },
  ): Promise<boolean> {
    const { tree, blobs, isBlocked, scans } = this.#options
    // another program may have put a link or a pipe there since
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
    await using file = await open(path, flags)
    const stats = await file.stat()
    if (!stats.isFile()) throw new LeftOut('no ordinary file')
    const modTime = secondsOf(stats)
    if (there.takeFile({ name, size: stats.size, modTime })) {
      this.#count({ present: 1 })
      return false
    }
    const blob = await this.#stored(file.createReadStream({ highWaterMark: readBytes, autoClose: false }), {
      size: stats.size,
    })
    const after = await file.stat()
    if (blob.size !== stats.size || after.mtimeMs !== stats.mtimeMs) throw new LeftOut('it changed meanwhile')
    if (isBlocked(blob.id)) throw new LeftOut('its content is blocked')
    const judgement = await scans.judge({ blob, blobs, network: '' })
    if (judgement === 'blocked') throw new LeftOut('the scanner found something in it')
    if (judgement === 'unavailable') throw new LeftOut('the scanner gave no verdict: repeat the import')
    await tree.addFile(folder, { name, modTime, blob })
    this.#count({ files: 1, bytes: blob.size })
    return true
  }

  async #stored(bytes: AsyncIterable<Buffer>, { size }: { size: number }): Promise<BlobInfo> {
    const { blobs, signal } = this.#options
    const stage = await blobs.stage({ expectedBytes: size, signal })
    try {
      for await (const piece of bytes) await stage.write(piece)
      return await stage.commit({ pinMs: pinMsMax })
    } catch (error) {
      await stage.abort()
      throw error
    }
  }

  async #make(
    parent: string,
    { name, stats, path }: { name: string; stats: Stats; path: string },
  ): Promise<string> {
    const made = this.#options.tree.makeFolder(parent, { name, modTime: secondsOf(stats) })
    const folder = await made.catch((error: unknown) => {
      throw this.#faultAt(path, error)
    })
    this.#count({ folders: 1 })
    return folder
  }

  async #present(folder: string): Promise<ExistingItems> {
    const there = new ExistingItems()
    try {
      for await (const item of this.#options.tree.children(folder)) there.add(item)
    } catch (error) {
      throw this.#faultAt(`folder ${folder}`, error)
    }
    return there
  }

  #count(more: Partial<Record<'folders' | 'files' | 'bytes' | 'present', number>>): void {
    for (const [figure, by] of Object.entries(more)) this.#report[figure as 'files'] += by
    this.#options.onProgress(this.#report)
  }

  /** In the account. */
  #nameOf(path: Buffer, entry: Dirent<Buffer>): string {
    const name = cleanUploadName(entry.name.toString())
    const isOther = !entry.name.equals(Buffer.from(name))
    const { renamed } = this.#report
    if (isOther && renamed.length < listedMax) renamed.push({ path: path.toString(), name })
    return name
  }

  #leaveOut(path: Buffer, why: string): undefined {
    this.#report.leftOutCount++
    if (this.#report.leftOut.length < listedMax) this.#report.leftOut.push({ path: path.toString(), why })
  }

  /** A refusal of the account ends the import: the operator raises a limit and repeats it. */
  #faultAt(path: string, error: unknown): unknown {
    if (!(error instanceof RefusalError)) return error
    const { account } = this.#options.tree
    const reasons: Record<string, string> = {
      'error-limits': `account ${account} is full: ctl account limits raises what it may hold`,
      'error-forbidden': `account ${account} may not upload: HOLDFAST_GUEST_UPLOADS`,
      'error-notFound': `account ${account} has no such folder`,
    }
    return new MoveFault(`${path}: ${reasons[error.status] ?? error.status}; then repeat the import`, {
      cause: error,
    })
  }
}

/** The items of a folder of the account, each for one entry of the directory. */
class ExistingItems {
  /** By name, the oldest first. */
  readonly #folders = new Map<string, string[]>()
  readonly #files = new Map<string, number>()

  add(item: Item): void {
    if (item.isFolder) this.#folders.set(item.name, [...(this.#folders.get(item.name) ?? []), item.id])
    else {
      const key = importedFileKey({ name: item.name, size: item.size, modTime: item.modTime })
      this.#files.set(key, (this.#files.get(key) ?? 0) + 1)
    }
  }

  takeFolder(name: string): string | undefined {
    return this.#folders.get(name)?.shift()
  }

  takeFile(file: { name: string; size: number; modTime: number }): boolean {
    const key = importedFileKey(file)
    const left = this.#files.get(key) ?? 0
    if (left > 0) this.#files.set(key, left - 1)
    return left > 0
  }
}

function importedFileKey({ name, size, modTime }: { name: string; size: number; modTime: number }): string {
  return `${size}/${modTime}/${name}`
}

function secondsOf({ mtimeMs }: Stats): number {
  return Math.floor(mtimeMs / 1000)
}

function pathOf(directory: Buffer, { name }: { name: Buffer }): Buffer {
  return Buffer.concat([directory, Buffer.from('/'), name])
}

/** Faults of one file, which do not end the import. */
function whyLeftOut(error: unknown): string | undefined {
  if (error instanceof LeftOut) return error.why
  const { code, syscall, message } = error as { code?: string; syscall?: string; message: string }
  const isOfSource = ['open', 'read', 'fstat'].includes(syscall ?? '')
  return isOfSource && code !== 'EMFILE' && code !== 'ENFILE' ? message : undefined
}
