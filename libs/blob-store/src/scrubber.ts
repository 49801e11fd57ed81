/**
 * Verifies every copy of a store on its disk periodically, at a bounded rate, and replaces damaged
 * ones. A standalone process and a node of a cluster use the same code; they differ in the source
 * of whole bytes.
 *
 * The store that notices damage marks the copy. The copy is removed only in favour of a verified,
 * synced replacement. Without one it stays, as the last known copy of those bytes, and is logged
 * once. A later upload of the same content replaces it. Too much damage within an hour means a
 * broken disk or controller, whose statements about copies are unreliable: scrubbing stops, and the
 * store is suspect until an operator clears it.
 *
 * A copy counts as damaged only if its bytes are wrong. An unreadable or a missing copy is not
 * damage.
 *
 * A pass visits the copies in the order of their ids. The store records its position each minute,
 * so that a process that restarts often still completes a pass.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Clock, hex, hourMs, isShortage } from '@holdfast/kernel'
import type { BlobInfo } from './blob-store.ts'
import { BlobFault } from './errors.ts'
import type { NodeStore } from './placed-blob-store.ts'
import { restoreCopy } from './restore-copy.ts'

export interface ScrubberOptions {
  store: NodeStore
  /**
   * Replaces a damaged copy by a whole one from elsewhere. Undefined: by another copy of the same
   * content in this store.
   * @throws BlobFault when no whole copy exists.
   */
  repair: ((copy: BlobInfo) => Promise<unknown>) | undefined
  clock: Clock
  /**
   * Waits, or ends early when the signal aborts. Undefined: a timer that does not keep the process
   * alive.
   */
  pause: ((ms: number, signal: AbortSignal) => Promise<void>) | undefined
  /** 20 MiB/s read 10 TB in six days, with a tenth of a spinning disk. 0: `start` does nothing. */
  bytesPerSecond: number
  /** Between the end of one pass and the next, ms. */
  restMs: number
  log: { warn(fields: object, message: string): void; error(fields: object, message: string): void }
}

export interface ScrubberTuning {
  /** Damaged copies in an hour that stop the scrubbing. Default 50. */
  damagedPerHourMax?: number
}

export interface ScrubResult {
  copies: number
  bytes: number
  damaged: number
  /** Damaged copies that were replaced. */
  repaired: number
  /** Could not be read; the next pass retries them. */
  unreadable: number
}

/** For operators. Totals count since the start of the process. */
export interface ScrubFigures {
  /** Unix ms at which the last full pass ended; undefined: none has. Stored in the store. */
  lastPassMs: number | undefined
  /** Unix ms at which this store was scrubbed first; undefined: never. Stored in the store. */
  beganMs: number | undefined
  /**
   * Progress of the current pass, 0 … 1; undefined between passes. Copies are spread evenly over
   * the ids.
   */
  progress: number | undefined
  verified: number
  verifiedBytes: number
  damaged: number
  repaired: number
  /** Copies that could not be read, in the current pass or the last one. */
  unreadable: number
  suspect: string | undefined
}

/** Shorter pauses are not worth a timer. */
const pauseMsMin = 10
/**
 * Minimum cost of a copy: a spinning disk reads about this much in the time of one seek. So it
 * reads 80 small copies a second.
 */
const copyBytesMin = 256 * 1024
/** How often a pass records its position. */
const noteEveryMs = 60_000
const noteName = 'scrubber'
/** Damaged copies that are logged by name; further ones are only counted. */
const reportedMax = 100_000

interface ScrubPosition {
  lastPassMs: number | undefined
  /** Earlier releases did not store it. */
  beganMs: number | undefined
  /** Id in hex up to which the current pass has come. */
  after: string | undefined
}

const atStart: ScrubPosition = { lastPassMs: undefined, beganMs: undefined, after: undefined }

export class Scrubber {
  readonly #options: ScrubberOptions & Required<ScrubberTuning>
  readonly #stop = new AbortController()
  /** When copies were found damaged within the last hour (monotonic ms). */
  #damagedAt: number[] = []
  #suspect: string | undefined
  #loop: Promise<void> | undefined
  /** Monotonic ms at which the rate allows the next read. */
  #paidAt = Number.NEGATIVE_INFINITY
  readonly #reported = new Set<string>()
  readonly #totals: ScrubResult = { copies: 0, bytes: 0, damaged: 0, repaired: 0, unreadable: 0 }
  #pass: ScrubResult | undefined
  #lastPassMs: number | undefined
  #beganMs: number | undefined
  /** Id in hex. */
  #at: string | undefined

  constructor(options: ScrubberOptions, tuning: ScrubberTuning = {}) {
    this.#options = { damagedPerHourMax: 50, ...tuning, ...options }
  }

  /**
   * Why this store is not trusted; sent in heartbeats, so that uploads and readers go elsewhere.
   */
  get suspect(): string | undefined {
    return this.#suspect
  }

  get figures(): ScrubFigures {
    const { copies, bytes, damaged, repaired } = this.#totals
    return {
      lastPassMs: this.#lastPassMs,
      beganMs: this.#beganMs,
      progress: this.#at === undefined ? undefined : Number.parseInt(this.#at.slice(0, 8), 16) / 2 ** 32,
      verified: copies,
      verifiedBytes: bytes,
      damaged,
      repaired,
      unreadable: this.#pass?.unreadable ?? 0,
      suspect: this.#suspect,
    }
  }

  /** An operator has examined it. */
  trust(): void {
    this.#suspect = undefined
    this.#damagedAt = []
  }

  start(): void {
    if (this.#options.bytesPerSecond > 0) this.#loop ??= this.#run()
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#loop
  }

  /** One full pass, or up to where the store became suspect. */
  async pass(): Promise<ScrubResult> {
    await this.#walk('')
    return { ...(this.#pass as ScrubResult) }
  }

  /**
   * Replaces a damaged copy.
   * @returns whether a verified replacement is synced.
   */
  async repair(info: BlobInfo): Promise<boolean> {
    const { log } = this.#options
    const whole = { ...info, damaged: undefined }
    try {
      await (this.#options.repair ?? this.#repairHere)(whole)
      this.#reported.delete(hex(info.id))
      return true
    } catch (error) {
      if (!(error instanceof BlobFault)) throw error
      const blob = hex(info.id)
      if (this.#reported.has(blob) || this.#reported.size >= reportedMax) return false
      this.#reported.add(blob)
      log.error(
        { blob, size: info.size, code: error.code, error: error.message },
        'a damaged copy is kept: no whole copy exists',
      )
      return false
    }
  }

  readonly #repairHere = async (copy: BlobInfo): Promise<void> => {
    const { store } = this.#options
    for (const other of await store.find(copy.id)) {
      const bytes = store.read(other, { start: 0, end: other.size })
      await restoreCopy(store, copy, bytes, { pinMs: 0, source: 'another copy of this store' })
      return
    }
    throw new BlobFault('NOT_FOUND', 'this store has no other copy of the content')
  }

  /** @returns whether it came to the end. */
  async #walk(after: string): Promise<boolean> {
    const { store, clock } = this.#options
    const done: ScrubResult = { copies: 0, bytes: 0, damaged: 0, repaired: 0, unreadable: 0 }
    this.#pass = done
    let notedAt = clock.monotonic()
    try {
      for await (const info of store.inventory()) {
        if (this.#stop.signal.aborted || this.#suspect !== undefined) return false
        const id = hex(info.id)
        if (id <= after) continue
        this.#at ??= id
        await this.#examine(info, done)
        if (this.#stop.signal.aborted) return false // perhaps not to its end
        this.#at = id
        if (this.#loop === undefined || clock.monotonic() - notedAt < noteEveryMs) continue
        notedAt = clock.monotonic()
        await this.#note({ after: id })
      }
      return true
    } finally {
      this.#at = undefined
    }
  }

  async #examine(info: BlobInfo, done: ScrubResult): Promise<void> {
    const { store, log } = this.#options
    this.#count(done, 'copies', 1)
    const outcome = info.damaged ? 'damaged' : await this.#verify(info, done)
    if (outcome === 'whole') return
    if (outcome instanceof BlobFault) {
      this.#count(done, 'unreadable', 1)
      log.warn(
        { blob: hex(info.id), code: outcome.code, error: outcome.message },
        'a copy cannot be read; the next pass tries again',
      )
      return
    }
    done.damaged++
    if (!info.damaged) {
      this.#totals.damaged++
      this.#noteDamage()
    }
    if (this.#suspect !== undefined) return
    if (await this.repair((await store.stat(info)) ?? info)) this.#count(done, 'repaired', 1)
  }

  async #verify(info: BlobInfo, done: ScrubResult): Promise<'whole' | 'damaged' | BlobFault> {
    const { store } = this.#options
    let owed = copyBytesMin
    try {
      for await (const bytes of store.verify(info, { signal: this.#stop.signal })) {
        this.#count(done, 'bytes', bytes)
        owed -= bytes
        await this.#pay(bytes)
      }
      await this.#pay(Math.max(0, owed))
      return 'whole'
    } catch (error) {
      if (isShortage(error))
        return new BlobFault('UNAVAILABLE', `it cannot be read now: ${(error as Error).message}`, {
          cause: error,
        })
      if (!(error instanceof BlobFault)) throw error
      if (error.code === 'CORRUPT') return 'damaged'
      if (error.code === 'CANCELLED' || error.code === 'CLOSED') throw error
      return error.code === 'NOT_FOUND' ? 'whole' : error // deleted meanwhile
    }
  }

  #count(done: ScrubResult, what: keyof ScrubResult, by: number): void {
    done[what] += by
    this.#totals[what] += by
  }

  /** Waits until the rate allows the next read. Unused rate is not saved up. */
  async #pay(bytes: number): Promise<void> {
    const { clock, bytesPerSecond, pause = systemPause } = this.#options
    const now = clock.monotonic()
    this.#paidAt = Math.max(this.#paidAt, now) + (bytes / bytesPerSecond) * 1000
    if (this.#paidAt - now >= pauseMsMin) await pause(this.#paidAt - now, this.#stop.signal)
  }

  #noteDamage(): void {
    const { clock, damagedPerHourMax, log } = this.#options
    const now = clock.monotonic()
    this.#damagedAt = [...this.#damagedAt.filter((at) => at > now - hourMs), now]
    if (this.#damagedAt.length <= damagedPerHourMax) return
    this.#suspect = `${this.#damagedAt.length} copies were found damaged within an hour`
    log.error({ damaged: this.#damagedAt.length }, 'this store is suspect; scrubbing stops')
  }

  async #run(): Promise<void> {
    const { clock, restMs, pause = systemPause, log } = this.#options
    let after = await this.#begin()
    while (!this.#stop.signal.aborted) {
      const restedMs = clock.now() - (this.#lastPassMs ?? Number.NEGATIVE_INFINITY)
      // A clock that was set back must not stop the scrubbing for years.
      if (after === '' && restedMs >= 0 && restedMs < restMs) {
        await pause(restMs - restedMs, this.#stop.signal)
        continue
      }
      try {
        if (this.#suspect === undefined && (await this.#walk(after))) {
          this.#lastPassMs = clock.now()
          await this.#note({ after: undefined })
          after = ''
          continue
        }
      } catch (error) {
        if (!this.#stop.signal.aborted)
          log.warn({ error: (error as Error).message }, 'scrubbing failed; it starts again')
      }
      await pause(Math.min(restMs, hourMs), this.#stop.signal)
    }
  }

  /** @returns where the pass continues, as an id in hex; '': at the begin. Never rejects. */
  async #begin(): Promise<string> {
    const { clock, log, store } = this.#options
    try {
      const value = await store.note(noteName)
      const place =
        value === undefined ? atStart : (JSON.parse(Buffer.from(value).toString()) as ScrubPosition)
      this.#lastPassMs = place.lastPassMs
      this.#beganMs = place.beganMs
      if (place.beganMs === undefined) {
        this.#beganMs = clock.now()
        await this.#note(place)
      }
      return place.after ?? ''
    } catch (error) {
      this.#beganMs ??= clock.now()
      log.warn({ error: (error as Error).message }, "the scrubber's position is not known, or not stored")
      return ''
    }
  }

  async #note({ after }: Pick<ScrubPosition, 'after'>): Promise<void> {
    const place: ScrubPosition = {
      lastPassMs: this.#lastPassMs,
      beganMs: this.#beganMs,
      after,
    }
    await this.#options.store.setNote(noteName, Buffer.from(JSON.stringify(place)))
  }
}

/** May end earlier: a timer of more than 24.8 days would end at once. */
async function systemPause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(Math.min(ms, hourMs), undefined, { signal, ref: false })
  } catch (error) {
    if (!signal.aborted) throw error
  }
}
