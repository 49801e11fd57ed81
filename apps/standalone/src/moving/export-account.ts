/**
 * Copies the tree of an account into a directory of the machine, with names, times and contents.
 * Each file is compared with its digest before it gets its name.
 *
 * A repeated export continues: a file that is there is read and compared, and copied again when it
 * differs. Content that the account deleted since stays in the directory.
 */

import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { checkBytes, forEachOf } from '@holdfast/backup'
import { BlobFault, type BlobStore } from '@holdfast/blob-store'
import { absent, hex } from '@holdfast/kernel'
import type { Item } from '@holdfast/wire'
import type { AccountTree } from './account-tree.ts'
import { MoveFault } from './move-fault.ts'

const filesAtOnce = 8
const readBytes = 256 * 1024
/** The longest name on ext4, xfs and most other file systems, bytes. */
const nameBytesMax = 255
/** Entries of each list of the report. */
const listedMax = 1_000
/** Says whose export the directory is, so that no other directory is written to. */
const noteName = '.holdfast-export.json'

export interface ExportReport {
  account: string
  folders: number
  /** Copied now. */
  files: number
  bytes: number
  /** Were there already, whole. */
  present: number
  /** Names that the file system cannot have, or that are there twice. */
  renamed: { path: string; name: string }[]
  /** Files that the store cannot read, without the bound of the list. */
  damaged: number
  damagedFiles: string[]
}

export interface ExportOptions {
  tree: AccountTree
  target: string
  blobs: Pick<BlobStore, 'read'>
  signal: AbortSignal
  onProgress: (progress: ExportReport) => void
}

/** @throws MoveFault, and errors of the target's file system; the next export continues. */
export async function exportAccount(options: ExportOptions): Promise<ExportReport> {
  const { tree, target } = options
  const report: ExportReport = {
    ...{ account: tree.account, folders: 0, files: 0, bytes: 0, present: 0, renamed: [], damaged: 0 },
    damagedFiles: [],
  }
  await openTarget(target, tree.account)
  await new Export(options, report).folder(await tree.root(), '')
  return report
}

/** @throws MoveFault when another entry has this name. */
async function openTarget(target: string, account: string): Promise<void> {
  await mkdir(target, { recursive: true, mode: 0o700 })
  const note = join(target, noteName)
  const reported = await readFile(note, 'utf8').catch(absent)
  const text = `${JSON.stringify({ account })}\n`
  if (reported !== undefined && reported !== text)
    throw new MoveFault(`${target} has the export of another account`)
  if (reported !== undefined) return
  if ((await readdir(target)).some((name) => name !== 'lost+found'))
    throw new MoveFault(`${target} is neither empty nor an export of this account`)
  await writeFile(note, text, { mode: 0o600 })
}

class Export {
  readonly #options: ExportOptions
  readonly #report: ExportReport

  constructor(options: ExportOptions, report: ExportReport) {
    this.#options = options
    this.#report = report
  }

  /** @param path below the target */
  async folder(id: string, path: string): Promise<void> {
    const { tree, target, signal } = this.#options
    const children = (await Array.fromAsync(tree.children(id))).sort(byAge)
    const names = this.#namesOf(children, path)
    const files = children.filter(({ isFolder }) => !isFolder)
    await forEachOf(files, filesAtOnce, async (item) => {
      signal.throwIfAborted()
      await this.#file(item, join(path, names.get(item.id) as string))
    })
    for (const item of children.filter(({ isFolder }) => isFolder)) {
      const below = join(path, names.get(item.id) as string)
      await mkdir(join(target, below), { recursive: true, mode: 0o700 })
      await this.folder(item.id, below)
      await utimes(join(target, below), item.modTime, item.modTime)
      this.#count({ folders: 1 })
    }
  }

  async #file(item: Item, path: string): Promise<void> {
    const { target, blobs, signal } = this.#options
    const { blob, size, modTime } = item
    if (blob === undefined) throw new Error(`file ${item.id} without content`)
    const file = join(target, path)
    if (await hasContent(file, { id: blob.id, size })) this.#count({ present: 1 })
    else {
      const unnamed = join(target, `.holdfast-${hex(randomBytes(8))}`)
      try {
        await using handle = await open(unnamed, 'wx', 0o600)
        const copied = async function* () {
          for await (const piece of blobs.read(blob, { start: 0, end: size }, { signal })) {
            await handle.writeFile(piece)
            yield piece
          }
        }
        await checkBytes(blob.id, copied())
        await handle.close()
        await rename(unnamed, file)
      } catch (error) {
        await rm(unnamed, { force: true })
        if (!(error instanceof BlobFault) || !isDamage.has(error.code)) throw error
        this.#report.damaged++
        if (this.#report.damagedFiles.length < listedMax) this.#report.damagedFiles.push(path)
        return
      }
      this.#count({ files: 1, bytes: size })
    }
    await utimes(file, modTime, modTime)
  }

  /** @param children in the same order each time */
  #namesOf(children: readonly Item[], path: string): Map<string, string> {
    const names = new Map<string, string>()
    const used = new Set<string>(path === '' ? [noteName] : [])
    for (const { id, name } of children) {
      let chosen = shortenName(name, '')
      for (let number = 2; used.has(chosen); number++) chosen = shortenName(name, ` (${number})`)
      used.add(chosen)
      names.set(id, chosen)
      if (chosen !== name && this.#report.renamed.length < listedMax)
        this.#report.renamed.push({ path: join(path, chosen), name })
    }
    return names
  }

  #count(more: Partial<Record<'folders' | 'files' | 'bytes' | 'present', number>>): void {
    for (const [figure, by] of Object.entries(more)) this.#report[figure as 'files'] += by
    this.#options.onProgress(this.#report)
  }
}

/** The store cannot give the bytes. Anything else ends the export. */
const isDamage = new Set<string>(['CORRUPT', 'IO', 'NOT_FOUND'])

/** The same order each time: times are seconds. */
function byAge(one: Item, other: Item): number {
  return one.createTime - other.createTime || (one.id < other.id ? -1 : 1)
}

/** An unreadable entry is a fault, never a missing file. */
async function hasContent(file: string, { id, size }: { id: Uint8Array; size: number }): Promise<boolean> {
  const there = await stat(file).catch(absent)
  if (there?.isFile() !== true || there.size !== size) return false
  return checkBytes(id, createReadStream(file, { highWaterMark: readBytes }) as AsyncIterable<Buffer>).then(
    () => true,
    () => false,
  )
}

/** The name with an addition before its extension, in as many bytes as a file system takes. */
function shortenName(name: string, addition: string): string {
  const [, stem = '', extension = ''] = /^(.+?)(\.[^.]{1,16})?$/su.exec(name) ?? []
  const room = nameBytesMax - Buffer.byteLength(addition + extension)
  let kept = stem
  while (Buffer.byteLength(kept) > room) kept = Array.from(kept).slice(0, -1).join('')
  return kept + addition + extension
}
