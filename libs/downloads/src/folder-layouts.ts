/**
 * Current archives of folders. A layout is made in slices, once for all concurrent requests, and
 * used again until the folder changes. The account reports the folder's version for every request,
 * and its manifest only for a version without a layout here.
 */
import { setImmediate as immediate } from 'node:timers/promises'
import { RefusalError } from '@holdfast/http-kit'
import type { Clock } from '@holdfast/kernel'
import { type ArchiveView, Manifest, type ManifestEntry } from '@holdfast/wire'
import { layOutInSlices, type ZipLayout } from './zip/layout.ts'

/** A folder of a million items has a layout of about 200 MB. */
const recentBytesMax = 256 * 1024 * 1024
/** Layouts being made at a time: each has a slice in every turn of the loop … */
const makingMax = 2
/** … and entries of all manifests held for that, about 500 bytes each. */
const heldEntriesMax = 2_000_000
/** md5, BLAKE3, incarnation, placement group. */
export const blobNameBytes = 68

export interface FolderLayout {
  layout: ZipLayout
  /** `blobNameBytes` for each entry of the tree; zeros for folders. */
  blobNames: Buffer
  name: string
}

export interface FolderNow {
  folder: string
  version: Buffer
  /** Asks the account for the manifest, on behalf of the caller. */
  take(): Promise<ArchiveView>
}

interface CachedLayout {
  version: Buffer
  /** Unix seconds at which it stops matching the folder. */
  ends: number | undefined
  laid: FolderLayout
}

export class FolderLayouts {
  readonly #clock: Clock
  /** By folder, the most recently used last. */
  readonly #recent = new Map<string, CachedLayout>()
  /** By folder and version. */
  readonly #underWay = new Map<string, Promise<CachedLayout>>()
  readonly #waiting: (() => void)[] = []
  #recentBytes = 0
  #heldEntries = 0
  #making = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @throws RefusalError error-unavailable while too much is being made; what `take` throws. */
  async of(now: FolderNow): Promise<FolderLayout> {
    const recent = this.#recentOf(now)
    if (recent !== undefined) return recent.laid
    const question = `${now.folder} ${now.version.toString('hex')}`
    for (;;) {
      const underWay = this.#underWay.get(question)
      if (underWay === undefined) return (await this.#begin(question, now)).laid
      const shared = await underWay.catch((error: unknown) => {
        if (!isPersonal(error)) throw error
      })
      if (shared !== undefined && !this.#isOver(shared)) return shared.laid
    }
  }

  #recentOf({ folder, version }: FolderNow): CachedLayout | undefined {
    const made = this.#recent.get(folder)
    if (made === undefined || !made.version.equals(version) || this.#isOver(made)) return undefined
    this.#recent.delete(folder)
    this.#recent.set(folder, made)
    return made
  }

  #isOver({ ends }: CachedLayout): boolean {
    return ends !== undefined && this.#clock.now() >= ends * 1000
  }

  #begin(question: string, { folder, take }: FolderNow): Promise<CachedLayout> {
    const making = this.#make(take)
      .then((made) => {
        this.#remember(folder, made)
        return made
      })
      .finally(() => this.#underWay.delete(question))
    this.#underWay.set(question, making)
    return making
  }

  #remember(folder: string, made: CachedLayout): void {
    this.#forget(folder)
    this.#recent.set(folder, made)
    this.#recentBytes += bytesOf(made.laid)
    for (const [oldest] of this.#recent) {
      if (this.#recentBytes <= recentBytesMax) break
      this.#forget(oldest)
    }
  }

  #forget(folder: string): void {
    const made = this.#recent.get(folder)
    if (made === undefined) return
    this.#recent.delete(folder)
    this.#recentBytes -= bytesOf(made.laid)
  }

  async #make(take: () => Promise<ArchiveView>): Promise<CachedLayout> {
    const { version, ends, pages, entries } = await take()
    if (this.#heldEntries > 0 && this.#heldEntries + entries > heldEntriesMax) {
      throw new RefusalError('error-unavailable', { retryAfter: 2 })
    }
    this.#heldEntries += entries
    await this.#enter()
    try {
      return { version, ends, laid: await layOutPages(pages, entries) }
    } finally {
      this.#heldEntries -= entries
      this.#leave()
    }
  }

  async #enter(): Promise<void> {
    if (this.#making < makingMax) this.#making += 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  /** The capacity goes directly to the longest waiting request. */
  #leave(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#making -= 1
    else next()
  }
}

export function bytesOf({ layout, blobNames }: FolderLayout): number {
  return layout.bytes + blobNames.length
}

/** A link that is closed to one caller may be open to others that wait with it. */
function isPersonal(error: unknown): boolean {
  return error instanceof RefusalError && error.status !== 'error-unavailable'
}

async function layOutPages(pages: readonly Buffer[], count: number): Promise<FolderLayout> {
  const entries: ManifestEntry[] = []
  const blobNames = Buffer.alloc(count * blobNameBytes)
  for (const page of pages) {
    await immediate()
    for (const entry of Manifest.decode(page).entries) {
      if (entry.blob !== undefined) {
        const at = entries.length * blobNameBytes
        blobNames.set(entry.blob.id, at)
        blobNames.set(entry.blob.incarnation, at + 48)
        blobNames.writeUInt32LE(entry.blob.placementGroup, at + 64)
      }
      entries.push(entry)
    }
  }
  const steps = layOutInSlices(entries)
  let step = steps.next()
  for (; !step.done; step = steps.next()) await immediate()
  return { layout: step.value, blobNames, name: entries[0]?.name ?? 'archive' }
}
