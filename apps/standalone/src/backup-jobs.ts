/** Backups, verifications, imports and exports of this process. */
import { usesOfCopy } from '@holdfast/accounts'
import {
  accountNamed,
  type BackupRequest,
  type ExportRequest,
  type ImportRequest,
  type OperatorDeps,
} from '@holdfast/admin'
import {
  askUses,
  BackupDirectory,
  BackupFault,
  LastBackup,
  type LongRun,
  LongRuns,
  outsideOf,
  pruneBackup,
  takeBackup,
  verifyLive,
} from '@holdfast/backup'
import type { Collector } from '@holdfast/blob-store'
import type { ChunkStore } from '@holdfast/chunk-store'
import { type LevelMetadataStore, referenceOfRow } from '@holdfast/journal-level'
import { type Clock, dayMs } from '@holdfast/kernel'
import type { JudgesContent } from '@holdfast/upload'
import type { Logger } from 'pino'
import { AccountTree } from './moving/account-tree.ts'
import { exportAccount } from './moving/export-account.ts'
import { importDirectory, statsOf } from './moving/import-directory.ts'
import { MoveFault } from './moving/move-fault.ts'

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

export class BackupJobs {
  readonly #deps: BackupJobsDeps
  readonly #runs: LongRuns
  readonly #last: LastBackup

  constructor(deps: BackupJobsDeps) {
    this.#deps = deps
    this.#last = new LastBackup({
      rows: deps.metadata.lookups,
      onFault: (error) => deps.log.warn({ err: error }, 'the time of the last backup is not kept'),
    })
    void this.#last.read()
    this.#runs = new LongRuns({ ...deps, hold: () => deps.collector.hold() })
  }

  /** The current run, or the last one. */
  get run(): LongRun | undefined {
    return this.#runs.run
  }

  /** The moment of the last complete backup, Unix ms; undefined: there was none. */
  get lastBackupMs(): number | undefined {
    return this.#last.takenMs
  }

  /**
   * Begins one, or joins the running one with the same target. Undefined: another run is active.
   */
  backUp({ target, bytesPerSecond, keyFile, prune }: BackupRequest): LongRun | undefined {
    const { dataDir, metadata, blobs, clock } = this.#deps
    return this.#runs.begin({ what: 'backup', target }, async (run) => {
      const path = await outsideOf(dataDir, target)
      const directory = await BackupDirectory.open(path, { keyFile, make: true })
      const taken = await takeBackup({
        directory,
        rows: () => metadata.everything(),
        blobs,
        bytesPerSecond,
        clock,
        signal: this.#runs.signal,
        onProgress: (progress) => {
          run.progress = progress
        },
      })
      await this.#last.note(taken.takenMs)
      if (prune === undefined) return taken
      const withinMs = prune.withinDays * dayMs
      const pruned = await pruneBackup(directory, { keep: prune.keep, withinMs, nowMs: clock.now() })
      return { ...taken, pruned }
    })
  }

  /** Reads and checks every copy. Undefined: another run is active. */
  verify(): LongRun | undefined {
    const { metadata, blobs } = this.#deps
    return this.#runs.begin({ what: 'verification', target: undefined }, async (run) => {
      const progress = { copies: 0, bytes: 0 }
      run.progress = progress
      const verified = await verifyLive(blobs, () => metadata.everything(), referenceOfRow, {
        signal: this.#runs.signal,
        onCopy: (bytes) => {
          progress.copies++
          progress.bytes += bytes
        },
      })
      return askUses(verified, (account, copy) => usesOfCopy(this.#deps.accounts(), account, copy))
    })
  }

  /** Why a directory cannot be imported now; undefined: it can. */
  async faultOfTarget(directory: string): Promise<string | undefined> {
    if (this.run?.running === true) return `the ${this.run.what} of ${this.run.target ?? 'all files'} runs`
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
  importDirectory({ directory, account, folder }: ImportRequest): LongRun | undefined {
    const { dataDir, blobs, isBlocked, scans } = this.#deps
    return this.#runs.begin({ what: 'import', target: `${directory} ${account}` }, async (run) =>
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
  exportAccount({ account, target }: ExportRequest): LongRun | undefined {
    const { dataDir, blobs } = this.#deps
    return this.#runs.begin({ what: 'export', target: `${account} ${target}` }, async (run) =>
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

  #onProgressOf(run: LongRun) {
    const onProgress = (progress: object) => {
      run.progress = { ...progress, leftOut: undefined, renamed: undefined, damagedFiles: undefined }
    }
    return { signal: this.#runs.signal, onProgress }
  }

  /** Ends a run; the next one into its target continues. */
  async close(): Promise<void> {
    await this.#runs.close()
  }
}
