/**
 * Long runs that read or write much: backups, verifications, imports and exports of this process,
 * one at a time, in the background. Callers ask for the state of the run, so that no call lasts for
 * hours.
 */
import { randomUUID } from 'node:crypto'
import { realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { usesOfCopy } from '@holdfast/accounts'
import {
  accountNamed,
  type BackupRequest,
  type ExportRequest,
  type ImportRequest,
  type OperatorDeps,
} from '@holdfast/admin'
import { BackupDirectory, BackupFault, named, pruneBackup, takeBackup, verifyLive } from '@holdfast/backup'
import type { Collector } from '@holdfast/blob-store'
import type { ChunkStore } from '@holdfast/chunk-store'
import { type LevelMetadataStore, referenceOfRow } from '@holdfast/journal-level'
import type { Clock } from '@holdfast/kernel'
import type { JudgesContent } from '@holdfast/upload'
import type { Logger } from 'pino'
import { AccountTree } from './moving/account-tree.ts'
import { exportAccount } from './moving/export-account.ts'
import { importDirectory, statsOf } from './moving/import-directory.ts'
import { MoveFault } from './moving/move-fault.ts'

const dayMs = 86_400_000

export interface BackupJobsDeps {
  dataDir: string
  metadata: LevelMetadataStore
  blobs: ChunkStore
  collector: Collector
  /** There are none while the process starts. */
  accounts: () => OperatorDeps
  isBlocked: (blobId: Uint8Array) => boolean
  /** There are none while the process starts. */
  scans: () => JudgesContent
  clock: Clock
  log: Logger
}

/** A run that reads everything. */
export interface BackupJob {
  id: string
  what: 'backup' | 'verification' | 'import' | 'export'
  target: string | undefined
  startedMs: number
  running: boolean
  /** Figures so far. */
  progress: object
  outcome: object | undefined
  /** Why it ended without an outcome. */
  failure: string | undefined
}

export class BackupJobs {
  readonly #deps: BackupJobsDeps
  readonly #closing = new AbortController()
  #run: BackupJob | undefined
  #work: Promise<void> = Promise.resolve()
  #lastBackupMs: number | undefined

  constructor(deps: BackupJobsDeps) {
    this.#deps = deps
  }

  /** The current run, or the last one. */
  get run(): BackupJob | undefined {
    return this.#run
  }

  /** The moment of the last backup that this process completed, Unix ms. */
  get lastBackupMs(): number | undefined {
    return this.#lastBackupMs
  }

  /**
   * Begins one, or joins the running one with the same target. Undefined: another run is active.
   */
  backUp({ target, bytesPerSecond, keyFile, prune }: BackupRequest): BackupJob | undefined {
    const { dataDir, metadata, blobs, clock } = this.#deps
    return this.#begin({ what: 'backup', target }, async (run) => {
      const path = await outsideOf(dataDir, target)
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
      if (prune === undefined) return taken
      const withinMs = prune.withinDays * dayMs
      const pruned = await pruneBackup(directory, { keep: prune.keep, withinMs, nowMs: clock.now() })
      return { ...taken, pruned }
    })
  }

  /** Reads and checks every copy. Undefined: another run is active. */
  verify(): BackupJob | undefined {
    const { metadata, blobs } = this.#deps
    return this.#begin({ what: 'verification', target: undefined }, async (run) => {
      const progress = { copies: 0, bytes: 0 }
      run.progress = progress
      const verified = await verifyLive(blobs, () => metadata.everything(), referenceOfRow, {
        signal: this.#closing.signal,
        onCopy: (bytes) => {
          progress.copies++
          progress.bytes += bytes
        },
      })
      return named(verified, (account, copy) => usesOfCopy(this.#deps.accounts(), account, copy))
    })
  }

  /** Why a directory cannot be imported now; undefined: it can. */
  async faultOf(directory: string): Promise<string | undefined> {
    if (this.#run?.running === true) return `the ${this.#run.what} of ${this.#run.target ?? 'all files'} runs`
    try {
      await statsOf(await outsideOf(this.#deps.dataDir, directory))
      return undefined
    } catch (error) {
      if (error instanceof MoveFault || error instanceof BackupFault) return error.message
      throw error
    }
  }

  /**
   * Copies a directory of this machine into a folder of an account. Undefined: another run is
   * active.
   */
  importDirectory({ directory, account, folder }: ImportRequest): BackupJob | undefined {
    const { dataDir, blobs, isBlocked, scans } = this.#deps
    return this.#begin({ what: 'import', target: `${directory} ${account}` }, async (run) =>
      importDirectory({
        directory: await outsideOf(dataDir, directory),
        tree: await this.#treeOf(account),
        folder,
        blobs,
        isBlocked,
        scans: scans(),
        ...this.#onProgressOf(run),
      }),
    )
  }

  /**
   * Copies the tree of an account into a directory of this machine. Undefined: another run is
   * active.
   */
  exportAccount({ account, target }: ExportRequest): BackupJob | undefined {
    const { dataDir, blobs } = this.#deps
    return this.#begin({ what: 'export', target: `${account} ${target}` }, async (run) =>
      exportAccount({
        tree: await this.#treeOf(account),
        target: await outsideOf(dataDir, target),
        blobs,
        ...this.#onProgressOf(run),
      }),
    )
  }

  async #treeOf(name: string): Promise<AccountTree> {
    const accounts = this.#deps.accounts()
    const account = await accountNamed(accounts, name).catch((error: Error) => {
      throw new MoveFault(`there is no account ${name}`, { cause: error })
    })
    return new AccountTree(accounts, account)
  }

  #onProgressOf(run: BackupJob) {
    const onProgress = (progress: object) => {
      run.progress = { ...progress, leftOut: undefined, renamed: undefined, damagedFiles: undefined }
    }
    return { signal: this.#closing.signal, onProgress }
  }

  /** Ends a run; the next one into its target continues. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#work
  }

  #begin(
    asked: Pick<BackupJob, 'what' | 'target'>,
    work: (run: BackupJob) => Promise<object>,
  ): BackupJob | undefined {
    const current = this.#run
    if (current?.running === true)
      return current.what === asked.what && current.target === asked.target ? current : undefined
    const run: BackupJob = {
      id: randomUUID(),
      ...asked,
      startedMs: this.#deps.clock.now(),
      running: true,
      progress: {},
      outcome: undefined,
      failure: undefined,
    }
    this.#run = run
    this.#work = this.#finish(run, work)
    return run
  }

  /** Never rejects. */
  async #finish(run: BackupJob, work: (run: BackupJob) => Promise<object>): Promise<void> {
    const { collector, clock, log } = this.#deps
    const details = () => ({ what: run.what, target: run.target, ms: clock.now() - run.startedMs })
    const letGo = await collector.hold()
    try {
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
 * Links are followed: a run never reads or writes the data directory, neither from inside nor from
 * around it.
 * @throws BackupFault
 */
async function outsideOf(dataDir: string, path: string): Promise<string> {
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
