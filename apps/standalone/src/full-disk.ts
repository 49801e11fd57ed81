/**
 * A start on a disk on which nothing at all can be written: the service serves reads and refuses
 * changes until there is room.
 *
 * Both databases write when they are opened. So they are opened as copies on another file system,
 * in memory where the machine has that. Tables never change, so they are links, like the file that
 * locks the original. Logs and manifests, some MiB, are copied. What the databases write there
 * follows from the originals, so it is thrown away.
 */
import { hash } from 'node:crypto'
import { copyFile, mkdir, mkdtemp, readdir, rm, stat, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { writableBytes } from '@holdfast/kernel'
import type { Logger } from 'pino'

const MiB = 1024 * 1024
/** Maximum size of the copies and of the tables written at the start. */
const copyBytes = 96 * MiB
/** An ordinary start makes both missing ballasts again, and needs some space to work with. */
const roomBytesMax = 64 * MiB
/**
 * With less free space there is no ordinary start, even where uploads need not leave any space
 * free: each start would fail and be repeated.
 */
const roomBytesMin = 8 * MiB
/**
 * The part of the space that uploads leave free which is enough for an ordinary start. Where they
 * leave less than 64 MiB, the ballasts are smaller, too, and more space may never become free.
 */
const roomOfReserve = 3 / 4
const lookEveryMs = 1_000
/** The first is in memory. */
const folders = ['/dev/shm', tmpdir()]
const isLinked = (name: string) => name === 'LOCK' || /\.(?:ldb|sst)$/.test(name)
/** Words for people. */
const isLog = (name: string) => name.startsWith('LOG')

/** The copies of one process. */
export class ReadingCopies {
  readonly #dir: { metadata: string; blobs: string }
  readonly #log: Logger
  #root: string | undefined
  /** The error of the last failed copy: reported once, retried every second. */
  #failure = ''

  constructor(dir: { metadata: string; blobs: string }, log: Logger) {
    this.#dir = dir
    this.#log = log
  }

  /** A copy of LevelDB's directory, in place of an earlier one. Undefined: no disk has room. */
  async ofRows(rows: string): Promise<string | undefined> {
    const root = await this.#rootFolder()
    if (root === undefined) return undefined
    const path = join(root, 'metadata')
    await rm(path, { recursive: true, force: true })
    await thinCopy(rows, join(path, 'rows'))
    return join(path, 'rows')
  }

  /** As `ofRows`, for a running service. Never rejects: a failure is logged. */
  async ofRowsWhereItCan(rows: string): Promise<string | undefined> {
    try {
      const path = await this.ofRows(rows)
      this.#failure = ''
      return path
    } catch (err) {
      const { message } = err as Error
      if (message !== this.#failure) this.#log.warn({ err }, 'the metadata cannot be copied for reading')
      this.#failure = message
      return undefined
    }
  }

  /** A folder with copies of all catalogues. Undefined: no disk has room. */
  async ofCatalogues(): Promise<string | undefined> {
    const root = await this.#rootFolder()
    if (root === undefined) return undefined
    const path = join(root, 'blobs')
    for (const name of await readdir(this.#dir.blobs))
      if (name.startsWith('catalogue-')) await thinCopy(join(this.#dir.blobs, name), join(path, name))
    return path
  }

  /** Removes the copies of killed processes. Called by the owner of the data directory's lock. */
  async removeOld(): Promise<void> {
    for (const folder of folders)
      for (const name of await readdir(folder).catch(() => []))
        if (name.startsWith(prefixOf(this.#dir)) && join(folder, name) !== this.#root)
          await rm(join(folder, name), { recursive: true, force: true }).catch((err) =>
            this.#log.warn({ err }, 'an old copy for reading cannot be removed'),
          )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const root = this.#root
    this.#root = undefined
    if (root !== undefined) await rm(root, { recursive: true, force: true })
  }

  /** On another file system, with room. */
  async #rootFolder(): Promise<string | undefined> {
    if (this.#root !== undefined) return this.#root
    const { dev } = await stat(this.#dir.metadata)
    for (const folder of folders) {
      const found = await stat(folder).catch(() => undefined)
      if (found === undefined || found.dev === dev) continue
      if ((await writableBytes(folder).catch(() => 0)) < copyBytes) continue
      this.#root = await mkdtemp(join(folder, prefixOf(this.#dir)))
      return this.#root
    }
    return undefined
  }
}

/**
 * Resolves when an ordinary start has room. False: it was ended before.
 *
 * @param options.reserveBytes what uploads leave free
 * @param options.restMs before the first look: the file system may count room that a quota denies
 */
export async function untilRoom(
  path: string,
  { reserveBytes, restMs, signal }: { reserveBytes: number; restMs: number; signal: AbortSignal },
): Promise<boolean> {
  const roomBytes = roomBytesOf(reserveBytes)
  await delay(restMs, undefined, { signal, ref: false }).catch(() => {})
  while (!signal.aborted) {
    if ((await writableBytes(path).catch(() => 0)) >= roomBytes) return true
    await delay(lookEveryMs, undefined, { signal, ref: false }).catch(() => {})
  }
  return false
}

/** @param reserveBytes what uploads leave free; 0: nothing. */
export function roomBytesOf(reserveBytes: number): number {
  return Math.max(roomBytesMin, Math.min(roomBytesMax, reserveBytes * roomOfReserve))
}

export function isFullDisk(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (/no space left|quota exceeded/i.test(cause.message) || (cause as { code?: string }).code === 'FULL')
      return true
  return false
}

function prefixOf({ metadata }: { metadata: string }): string {
  return `holdfast-reading-${hash('sha256', resolve(metadata)).slice(0, 16)}-`
}

async function thinCopy(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true, mode: 0o700 })
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [resolve(from, entry.name), join(to, entry.name)]
    if (!entry.isFile() || isLog(entry.name)) continue
    if (isLinked(entry.name)) await symlink(source, target)
    else await copyFile(source, target)
  }
}
