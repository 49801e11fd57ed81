/**
 * New content is scanned before an account takes it: its bytes are durable, and no client can name
 * them yet.
 *
 * Bounds. A scan and the wait for its turn have one deadline, far below the time for which the
 * bytes are pinned. Networks take turns. Content above a size is not scanned. Uploads of equal
 * content share a scan, and a verdict of clean holds for a time, because scanners learn. Content in
 * which something was found is blocked as by an operator, so existing copies are blocked too.
 *
 * A scanner that gave no verdict is tried again with a short text until it gives one, so that an
 * operator knows whether it still fails, also without uploads.
 *
 * A block that an operator lifted is not made again while the lists contain the lifted row, because
 * scanners make mistakes.
 */
import { FairSemaphore } from '@holdfast/actor-runtime'
import type { BlobInfo, BlobStore } from '@holdfast/blob-store'
import { type Clock, hex, pause, RecentMap, systemTimers } from '@holdfast/kernel'
import type { BlockLists } from '@holdfast/moderation'
import { ScanFault, type Scanner, type Verdict } from './scanner.ts'

/**
 * `good`: clean, or not scanned by the operator's choice. `blocked`: something was found.
 * `unavailable`: there is no verdict, and without one nothing is stored.
 */
export type Judgement = 'good' | 'blocked' | 'unavailable'

export interface ContentQuestion {
  blob: BlobInfo
  /** Has the blob. */
  blobs: BlobStore
  /** The uploader's network: networks take turns. */
  network: string
}

/** The check of content that no account has yet. */
export interface JudgesContent {
  /** Never rejects; resolves within the deadline of a scan. */
  judge(asked: ContentQuestion): Promise<Judgement>
}

export const allIsGood: JudgesContent = { judge: async () => 'good' }

export interface ScanSettings {
  /** From the question to the verdict, ms. */
  deadlineMs: number
  /** Larger content is not scanned. */
  bytesMax: number
  atOnceMax: number
  /** Without a verdict the content is refused, or stored. */
  onFailure: 'refuse' | 'accept'
}

export interface ScanDeps {
  /** Undefined: nothing is scanned. */
  scanner: Scanner | undefined
  settings: ScanSettings
  lists: Pick<BlockLists, 'block' | 'count' | 'wasLifted'>
  clock: Clock
  /** Between two tries of a scanner that fails. */
  retryMs: number
  /** @param isStored without a verdict, by the operator's choice. */
  onFault: (error: unknown, about: { blob: BlobInfo; isStored: boolean }) => void
  onFound: (found: string, about: { blob: BlobInfo }) => void
}

/**
 * `known`: an earlier verdict holds. `larger`: the content is larger than the operator has scanned.
 * `lifted`: an operator lifted a block of the content.
 */
export const scanOutcomes = ['clean', 'found', 'failed', 'known', 'larger', 'lifted'] as const
export type ScanOutcome = (typeof scanOutcomes)[number]

/** Figures for the operator. */
export interface ScanFigures {
  scanner: string
  underWay: number
  /** Since the start. */
  outcomes: Readonly<Record<ScanOutcome, number>>
  /** Why the last scan, or the last try, gave no verdict; undefined: it gave one. */
  failing: string | undefined
}

/** The input of one scan. */
interface ScanInput {
  content: (signal: AbortSignal) => AsyncIterable<Uint8Array>
  network: string
}

/** Signatures of scanners change every few hours. */
const cleanMs = 24 * 60 * 60 * 1000
/** Verdicts kept, some 200 bytes each. */
const verdictsMax = 50_000
/** Scans that wait for their turn, beyond those under way. */
const waitingMax = 256
/**
 * Half of the list's bound: clients that send variants must not fill the list of the operator.
 */
const blockedMax = 50_000
const md5Bytes = 16

export class ContentScans implements JudgesContent {
  readonly #deps: ScanDeps
  readonly #turns: FairSemaphore
  readonly #cleanUntilMs = new RecentMap<string, number>({ max: verdictsMax })
  readonly #underWay = new Map<string, Promise<Judgement>>()
  readonly #closing = new AbortController()
  readonly #outcomes: Record<ScanOutcome, number> = {
    ...{ clean: 0, found: 0, failed: 0, known: 0, larger: 0, lifted: 0 },
  }
  #failing: string | undefined
  #isTried = false
  /** For the histogram: how long scans took, seconds. */
  onScanned: (seconds: number) => void = () => {}

  constructor(deps: ScanDeps) {
    this.#deps = deps
    this.#turns = new FairSemaphore({ atOnceMax: deps.settings.atOnceMax, waitingMax })
  }

  get figures(): ScanFigures {
    return {
      scanner: this.#deps.scanner?.name ?? 'off',
      underWay: this.#underWay.size,
      outcomes: this.#outcomes,
      failing: this.#failing,
    }
  }

  async judge(asked: ContentQuestion): Promise<Judgement> {
    const { scanner, settings, lists, clock } = this.#deps
    const { blob } = asked
    if (scanner === undefined || blob.size === 0) return 'good'
    const key = hex(blob.id)
    const running = this.#underWay.get(key)
    if (running !== undefined) return await running
    if ((this.#cleanUntilMs.get(key) ?? 0) > clock.monotonic()) return this.#pass('known')
    if (blob.size > settings.bytesMax) return this.#pass('larger')
    if (lists.wasLifted('content', blake3Of(blob))) return this.#pass('lifted')
    const scan = this.#judged(scanner, key, asked).finally(() => this.#underWay.delete(key))
    this.#underWay.set(key, scan)
    return await scan
  }

  /** Ends the running scans; their callers get no verdict. */
  close(): void {
    this.#closing.abort(new ScanFault('the service ends'))
  }

  #pass(outcome: ScanOutcome): Judgement {
    this.#outcomes[outcome]++
    return 'good'
  }

  async #judged(scanner: Scanner, key: string, asked: ContentQuestion): Promise<Judgement> {
    const { settings, clock, onFault } = this.#deps
    const beganMs = clock.monotonic()
    try {
      const { blob, blobs, network } = asked
      const content = (signal: AbortSignal) => blobs.read(blob, { start: 0, end: blob.size }, { signal })
      const verdict = await this.#scanned(scanner, { content, network })
      this.onScanned((clock.monotonic() - beganMs) / 1000)
      this.#failing = undefined
      if (!verdict.isClean) return await this.#block(verdict.found, asked)
      this.#cleanUntilMs.set(key, clock.monotonic() + cleanMs)
      return this.#pass('clean')
    } catch (error) {
      this.#outcomes.failed++
      this.#failing = (error as Error).message
      void this.#tryAgain(scanner)
      const isStored = settings.onFailure === 'accept'
      onFault(error, { blob: asked.blob, isStored })
      return isStored ? 'good' : 'unavailable'
    }
  }

  /** Until the scanner gives a verdict. Never rejects. */
  async #tryAgain(scanner: Scanner): Promise<void> {
    if (this.#isTried) return
    this.#isTried = true
    const { signal } = this.#closing
    for (;;) {
      await pause(systemTimers, this.#deps.retryMs, signal)
      if (this.#failing === undefined || signal.aborted) break
      try {
        await this.#scanned(scanner, { content: tryText, network: '' })
        this.#failing = undefined
      } catch (error) {
        this.#failing = (error as Error).message
      }
    }
    this.#isTried = false
  }

  async #scanned(scanner: Scanner, { content, network }: ScanInput): Promise<Verdict> {
    const { deadlineMs } = this.#deps.settings
    const late = new AbortController()
    const timer = setTimeout(
      () => late.abort(new ScanFault(`no verdict within ${deadlineMs / 1000} s`)),
      deadlineMs,
    )
    const signal = AbortSignal.any([late.signal, this.#closing.signal])
    const ended = Promise.withResolvers<never>()
    const end = () => ended.reject(signal.reason)
    signal.addEventListener('abort', end, { once: true })
    if (signal.aborted) end()
    try {
      const turn = this.#turns.run({ network, folder: '' }, () => scanner.scan(content(signal), { signal }))
      // A turn that comes too late ends at once.
      const verdict = await Promise.race([turn, ended.promise])
      if (verdict === undefined) throw new ScanFault(`${waitingMax} scans wait already`)
      return verdict
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
    }
  }

  /** The content stays refused even if its hash cannot be stored. */
  async #block(found: string, { blob }: ContentQuestion): Promise<Judgement> {
    const { lists, onFault, onFound, scanner } = this.#deps
    this.#outcomes.found++
    onFound(found, { blob })
    try {
      const reason = `${scanner?.name} found ${found}`
      if (lists.count('content') < blockedMax)
        await lists.block('content', [blake3Of(blob)], { by: 'scanner', reason })
    } catch (error) {
      onFault(error, { blob, isStored: false })
    }
    return 'blocked'
  }
}

async function* tryText(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('Does the scanner answer?')
}

function blake3Of({ id }: BlobInfo): string {
  return hex(id.subarray(md5Bytes))
}
