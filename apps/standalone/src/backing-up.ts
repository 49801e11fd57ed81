/**
 * Backups and verifications of this process: one at a time, in the background. Callers ask for the
 * state of the run, so none of them waits for hours.
 */
import { randomUUID } from 'node:crypto'
import { resolve, sep } from 'node:path'
import { BackupDirectory, BackupFault, takeBackup, verifyLive } from '@holdfast/backup'
import type { Collector } from '@holdfast/blob-store'
import type { ChunkStore } from '@holdfast/chunk-store'
import { type LevelMetadataStore, referenceOfRow } from '@holdfast/journal-level'
import type { Clock } from '@holdfast/kernel'
import type { Logger } from 'pino'

export interface WholeReadsDeps {
  dataDir: string
  metadata: LevelMetadataStore
  blobs: ChunkStore
  collector: Collector
  clock: Clock
  log: Logger
}

export interface BackupOptions {
  target: string
  bytesPerSecond?: number | undefined
  keyFile?: string | undefined
}

/** A run that reads everything. */
export interface Run {
  id: string
  what: 'backup' | 'verification'
  target?: string
  startedMs: number
  running: boolean
  /** Figures so far. */
  progress: object
  outcome?: object
  /** Why it ended without an outcome. */
  failure?: string
}

export class WholeReads {
  readonly #deps: WholeReadsDeps
  readonly #closing = new AbortController()
  #run: Run | undefined
  #work: Promise<void> = Promise.resolve()
  #lastBackupMs: number | undefined

  constructor(deps: WholeReadsDeps) {
    this.#deps = deps
  }

  /** The current run, or the last one. */
  get run(): Run | undefined {
    return this.#run
  }

  /** The moment of the last backup that this process completed, Unix ms. */
  get lastBackupMs(): number | undefined {
    return this.#lastBackupMs
  }

  /** Begins one, or joins the one that runs into the same target. Undefined: another run is on. */
  backUp({ target, bytesPerSecond, keyFile }: BackupOptions): Run | undefined {
    const { dataDir, metadata, blobs, clock } = this.#deps
    return this.#begin({ what: 'backup', target }, async (run) => {
      const path = resolve(target)
      if (`${path}${sep}`.startsWith(`${resolve(dataDir)}${sep}`))
        throw new BackupFault('UNUSABLE', 'the target is in the data directory: name one outside of it')
      const directory = await BackupDirectory.open(path, { keyFile, make: true })
      const taken = await takeBackup({
        directory,
        rows: () => metadata.everything(),
        blobs,
        bytesPerSecond,
        clock,
        signal: this.#closing.signal,
        onProgress: (progress) => {
          run.progress = progress
        },
      })
      this.#lastBackupMs = taken.takenMs
      return taken
    })
  }

  /** Reads and checks every copy. Undefined: another run is on. */
  verify(): Run | undefined {
    const { metadata, blobs } = this.#deps
    return this.#begin({ what: 'verification' }, async (run) => {
      const progress = { copies: 0, bytes: 0 }
      run.progress = progress
      return verifyLive(blobs, () => metadata.everything(), referenceOfRow, {
        signal: this.#closing.signal,
        onCopy: (bytes) => {
          progress.copies++
          progress.bytes += bytes
        },
      })
    })
  }

  /** Ends a run; the next one into its target continues. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#work
  }

  #begin(asked: Pick<Run, 'what' | 'target'>, work: (run: Run) => Promise<object>): Run | undefined {
    const current = this.#run
    if (current?.running === true)
      return current.what === asked.what && current.target === asked.target ? current : undefined
    const run: Run = {
      id: randomUUID(),
      ...asked,
      startedMs: this.#deps.clock.now(),
      running: true,
      progress: {},
    }
    this.#run = run
    this.#work = this.#finish(run, work)
    return run
  }

  /** Never rejects. */
  async #finish(run: Run, work: (run: Run) => Promise<object>): Promise<void> {
    const { collector, clock, log } = this.#deps
    const facts = () => ({ what: run.what, target: run.target, ms: clock.now() - run.startedMs })
    const letGo = await collector.hold()
    try {
      run.outcome = await work(run)
      log.info({ ...facts(), ...run.progress }, 'a run over all files is complete')
    } catch (error) {
      run.failure = (error as Error).message
      log.warn({ ...facts(), err: error }, 'a run over all files failed')
    } finally {
      letGo()
      run.running = false
    }
  }
}
