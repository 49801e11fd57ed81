/**
 * Runs of a process that read or write much, one at a time, in the background. Callers ask for the
 * state of the run, so that no call lasts for hours.
 */
import { randomUUID } from 'node:crypto'
import { realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import type { Clock } from '@holdfast/kernel'
import { BackupFault } from './errors.ts'

export interface LongRun {
  id: string
  what: 'backup' | 'restore' | 'verification' | 'import' | 'export'
  target: string | undefined
  startedMs: number
  running: boolean
  /** Figures so far. */
  progress: object
  outcome: object | undefined
  /** Why it ended without an outcome. */
  failure: string | undefined
}

export interface LongRunsOptions {
  clock: Clock
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
  /** Resolves when no copy is deleted until the result is called. */
  hold: () => Promise<() => void>
}

export class LongRuns {
  readonly #options: LongRunsOptions
  readonly #closing = new AbortController()
  #run: LongRun | undefined
  #work: Promise<void> = Promise.resolve()

  constructor(options: LongRunsOptions) {
    this.#options = options
  }

  /** The current run, or the last one. */
  get run(): LongRun | undefined {
    return this.#run
  }

  /** Aborted when the process ends. */
  get signal(): AbortSignal {
    return this.#closing.signal
  }

  /**
   * Begins one, or joins the running one of the same kind and target. Undefined: another run is
   * active.
   */
  begin(
    asked: Pick<LongRun, 'what' | 'target'>,
    work: (run: LongRun) => Promise<object>,
  ): LongRun | undefined {
    const current = this.#run
    if (current?.running === true)
      return current.what === asked.what && current.target === asked.target ? current : undefined
    const run: LongRun = {
      id: randomUUID(),
      ...asked,
      startedMs: this.#options.clock.now(),
      running: true,
      progress: {},
      outcome: undefined,
      failure: undefined,
    }
    this.#run = run
    this.#work = this.#finish(run, work)
    return run
  }

  /** Ends a run; the next one into its target continues. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#work
  }

  /** Never rejects. */
  async #finish(run: LongRun, work: (run: LongRun) => Promise<object>): Promise<void> {
    const { clock, log, hold } = this.#options
    const details = () => ({ what: run.what, target: run.target, ms: clock.now() - run.startedMs })
    let letGo = () => {}
    try {
      letGo = await hold()
      run.outcome = await work(run)
      log.info({ ...details(), ...run.progress }, 'a run over all files is complete')
    } catch (error) {
      run.failure = (error as Error).message
      log.warn({ ...details(), err: error }, 'a run over all files failed')
    } finally {
      letGo()
      run.running = false
    }
  }
}

/**
 * Follows links. A run reads and writes neither the data directory, nor a directory in it, nor one
 * that contains it.
 * @throws BackupFault
 */
export async function outsideOf(dataDir: string, path: string): Promise<string> {
  const [real, realDataDir] = await Promise.all([realPathOf(resolve(path)), realPathOf(resolve(dataDir))])
  if (isWithin(realDataDir, real))
    throw new BackupFault('UNUSABLE', `${path} is in the data directory: name one outside of it`)
  if (isWithin(real, realDataDir))
    throw new BackupFault('UNUSABLE', `the data directory is in ${path}: name a directory without it`)
  return resolve(path)
}

function isWithin(directory: string, path: string): boolean {
  return path === directory || path.startsWith(directory.endsWith(sep) ? directory : `${directory}${sep}`)
}

/** Also of a path whose last parts do not exist. */
async function realPathOf(path: string): Promise<string> {
  return realpath(path).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT' || dirname(path) === path) return path
    return join(await realPathOf(dirname(path)), basename(path))
  })
}
