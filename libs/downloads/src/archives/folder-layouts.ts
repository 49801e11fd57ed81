/**
 * Current archives of folders. A layout is made in slices, once for all concurrent requests, and
 * used again until the folder changes. The account reports the folder's version for every request,
 * and its manifest only for a version without a layout here.
 */
import { AnswerBudget, RefusalError } from '@holdfast/http-kit'
import type { Clock } from '@holdfast/kernel'
import { type ArchiveView, Manifest, type ManifestEntry } from '@holdfast/wire'
import { LayoutBudget } from './layout-budget.ts'
import { layOutInSlices, type ZipLayout } from './zip/layout.ts'

/** Layouts being made at a time; the networks that wait take turns. */
const makingMax = 4
/** Memory of an entry of a manifest while its layout is made. */
const entryBytes = 500
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
  /** The network of the client. */
  network: string
  /** Asks the account for the manifest, on behalf of the caller. */
  take(): Promise<ArchiveView>
  /** Files with these bytes are left out; what it answers follows from `version`. */
  leavesOut?(blobId: Uint8Array): boolean
}

interface CachedLayout {
  version: Buffer
  /** Unix seconds at which it stops matching the folder. */
  ends: number | undefined
  laid: FolderLayout
}

/** Work in pieces, see `Turns` of http-kit: all archives together have some milliseconds a turn. */
export type Slices = Pick<AnswerBudget['turns'], 'take'>

export class FolderLayouts {
  readonly #clock: Clock
  readonly #budget: LayoutBudget
  readonly #slices: Slices
  /** By folder. */
  readonly #recent = new Map<string, { made: CachedLayout; release: () => void }>()
  /**
   * By folder: the layout that is being made, and the version that was known when its manifest was
   * requested.
   */
  readonly #begun = new Map<string, { version: Buffer; making: Promise<CachedLayout> }>()
  /** By folder: the next layout, whose manifest is not requested yet. */
  readonly #next = new Map<string, Promise<CachedLayout>>()
  /** By network; the one that was served longest ago is first. */
  readonly #waiting = new Map<string, (() => void)[]>()
  #making = 0

  constructor({
    clock,
    budget = new LayoutBudget(),
    slices = new AnswerBudget({ metrics: undefined, clock }).turns,
  }: {
    clock: Clock
    budget?: LayoutBudget
    slices?: Slices
  }) {
    this.#clock = clock
    this.#budget = budget
    this.#slices = slices
  }

  /** @throws RefusalError error-unavailable while too much is being made; what `take` throws. */
  async of(now: FolderNow): Promise<FolderLayout> {
    for (;;) {
      const recent = this.#recentOf(now)
      if (recent !== undefined) return recent.laid
      const begun = this.#begun.get(now.folder)
      const making = begun?.version.equals(now.version) ? begun.making : this.#next.get(now.folder)
      if (making === undefined) return (await this.#makeNext(now)).laid
      const shared = await making.catch((error: unknown) => {
        if (!isPersonal(error)) throw error
      })
      if (shared !== undefined && !this.#isOver(shared)) return shared.laid
    }
  }

  #recentOf({ folder, version, network }: FolderNow): CachedLayout | undefined {
    const made = this.#recent.get(folder)?.made
    if (made === undefined || !made.version.equals(version) || this.#isOver(made)) return undefined
    this.#remember({ folder, network }, made)
    return made
  }

  #isOver({ ends }: CachedLayout): boolean {
    return ends !== undefined && this.#clock.now() >= ends * 1000
  }

  /**
   * One layout of a folder is made at a time. All requests that come meanwhile share the next one:
   * otherwise a folder that changes all the time would need a layout for each request.
   */
  #makeNext(now: FolderNow): Promise<CachedLayout> {
    const { promise: making, resolve } = Promise.withResolvers<CachedLayout>()
    this.#next.set(now.folder, making)
    resolve(this.#makeAlone(now, making))
    return making
  }

  async #makeAlone(now: FolderNow, making: Promise<CachedLayout>): Promise<CachedLayout> {
    const { folder, version, network } = now
    const before = this.#begun.get(folder)
    if (before !== undefined) await before.making.catch(() => {})
    const turn = this.#enter(network)
    if (turn !== undefined) await turn
    this.#next.delete(folder)
    this.#begun.set(folder, { version, making })
    try {
      const made = await this.#make(now)
      this.#remember(now, made)
      return made
    } finally {
      this.#begun.delete(folder)
      this.#leave()
    }
  }

  #remember({ folder, network }: Pick<FolderNow, 'folder' | 'network'>, made: CachedLayout): void {
    const before = this.#recent.get(folder)
    const kept = { made, release: () => {} }
    this.#recent.set(folder, kept)
    kept.release = this.#budget.keep(made.laid, { bytes: layoutBytes(made.laid), network }, () => {
      if (this.#recent.get(folder) === kept) this.#recent.delete(folder)
    })
    // After the new `keep`, so that a layout that is kept again is not forgotten in between.
    before?.release()
  }

  /** The manifest is asked for when its layout may be made: those that wait hold nothing. */
  async #make({ take, network, leavesOut }: FolderNow): Promise<CachedLayout> {
    const { version, ends, pages, entries } = await take()
    const manifest = { bytes: entries * entryBytes, network }
    this.#budget.admit(pages, manifest)
    const done = this.#budget.use(pages, manifest)
    try {
      const inPieces = <T>(piece: () => T) => this.#slices.take(network, piece)
      return { version, ends, laid: await layOutPages(pages, entries, { inPieces, leavesOut }) }
    } finally {
      done()
    }
  }

  /** Undefined: at once. */
  #enter(network: string): Promise<void> | undefined {
    if (this.#making < makingMax) {
      this.#making += 1
      return undefined
    }
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(network)
      if (waiting === undefined) this.#waiting.set(network, [resolve])
      else waiting.push(resolve)
    })
  }

  /** The capacity goes directly to the network whose turn it is. */
  #leave(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#making -= 1
      return
    }
    const [network, waiting] = next
    const enter = waiting.shift()
    this.#waiting.delete(network)
    if (waiting.length > 0) this.#waiting.set(network, waiting)
    enter?.()
  }
}

export function layoutBytes({ layout, blobNames }: FolderLayout): number {
  return layout.bytes + blobNames.length
}

/** Whether an error may be of one caller alone: the link may be open to others that wait. */
function isPersonal(error: unknown): boolean {
  return error instanceof RefusalError && error.status !== 'error-unavailable'
}

async function layOutPages(
  pages: readonly Buffer[],
  count: number,
  { inPieces, leavesOut }: { inPieces: <T>(piece: () => T) => Promise<T>; leavesOut: FolderNow['leavesOut'] },
): Promise<FolderLayout> {
  const entries: ManifestEntry[] = []
  const blobNames = Buffer.alloc(count * blobNameBytes)
  // Places of the manifest's entries among those of the archive.
  const places = new Uint32Array(count)
  let read = 0
  const add = (page: Buffer) => {
    for (const entry of Manifest.decode(page).entries) {
      places[read++] = entries.length
      if (entry.blob !== undefined) {
        if (leavesOut?.(entry.blob.id) === true) continue
        const at = entries.length * blobNameBytes
        blobNames.set(entry.blob.id, at)
        blobNames.set(entry.blob.incarnation, at + 48)
        blobNames.writeUInt32LE(entry.blob.placementGroup, at + 64)
      }
      entry.parent = places[entry.parent] ?? 0
      entries.push(entry)
    }
  }
  for (const page of pages) await inPieces(() => add(page))
  const steps = layOutInSlices(entries)
  let step = await inPieces(() => steps.next())
  while (!step.done) step = await inPieces(() => steps.next())
  return { layout: step.value, blobNames, name: entries[0]?.name ?? 'archive' }
}
