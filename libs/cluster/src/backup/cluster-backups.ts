/** Backups of the whole cluster, and a restore into an empty one, as long runs of this process. */
import { randomUUID } from 'node:crypto'
import type { BackupRequest, RestoreRequest } from '@holdfast/admin'
import {
  BackupDirectory,
  BackupFault,
  LastBackup,
  type LongRun,
  LongRuns,
  outsideOf,
  pruneBackup,
  takeBackup,
} from '@holdfast/backup'
import { dayMs } from '@holdfast/kernel'
import type { ClusterPart } from '../cluster-part.ts'
import { clusterBlobs } from '../join-cluster.ts'
import { HeldCollectors } from '../storage/holding.ts'
import { copiesOfCluster } from './cluster-copies.ts'
import { rowsOfCluster } from './cluster-rows.ts'
import { restoreCluster } from './restore-cluster.ts'

/** How late a process sees a backup that another one took. */
const readEveryMs = 600_000

export class ClusterBackups {
  readonly #cluster: ClusterPart
  readonly #runs: LongRuns
  readonly #last: LastBackup
  readonly #reading: NodeJS.Timeout

  constructor(cluster: ClusterPart) {
    this.#cluster = cluster
    this.#last = new LastBackup({
      rows: cluster.lookups,
      onFault: (error) => cluster.log.warn({ err: error }, 'the time of the last backup is not known'),
    })
    void this.#last.read()
    this.#reading = setInterval(() => void this.#last.read(), readEveryMs)
    this.#reading.unref()
    this.#runs = new LongRuns({ clock: cluster.clock, log: cluster.log, hold: async () => () => {} })
  }

  /** The current run, or the last one. */
  get run(): LongRun | undefined {
    return this.#runs.run
  }

  /** The moment of the last complete backup of the cluster that is known here, Unix ms. */
  get lastBackupMs(): number | undefined {
    return this.#last.takenMs
  }

  /** Undefined: another run is active. */
  backUp({ target, bytesPerSecond, keyFile, prune }: BackupRequest): LongRun | undefined {
    const { clock, config } = this.#cluster
    return this.#runs.begin({ what: 'backup', target }, async (run) => {
      const path = await outsideOf(config.dataDir, target)
      const directory = await BackupDirectory.open(path, { keyFile, make: true })
      const taken = await this.#holding((signal) =>
        this.#take(directory, {
          bytesPerSecond,
          signal,
          onProgress: (progress) => (run.progress = progress),
        }),
      )
      await this.#last.note(taken.takenMs)
      if (prune === undefined) return taken
      const withinMs = prune.withinDays * dayMs
      return {
        ...taken,
        pruned: await pruneBackup(directory, { keep: prune.keep, withinMs, nowMs: clock.now() }),
      }
    })
  }

  /** Undefined: another run is active. */
  restore({ from, at, keyFile, withoutDamaged }: RestoreRequest): LongRun | undefined {
    return this.#runs.begin({ what: 'restore', target: from }, async (run) => {
      const directory = await BackupDirectory.open(from, { keyFile })
      const snapshot = await directory.snapshot(at)
      const keyspaces = this.#cluster.openWholeKeyspaces()
      const onProgress = (progress: object) => {
        run.progress = progress
      }
      try {
        return await this.#holding((signal) =>
          restoreCluster(this.#cluster, {
            directory,
            snapshot,
            keyspaces,
            withoutDamaged,
            signal,
            onProgress,
          }),
        )
      } finally {
        await keyspaces.close()
      }
    })
  }

  /** Ends a run; the next one continues. */
  close(): Promise<void> {
    clearInterval(this.#reading)
    return this.#runs.close()
  }

  async #take(
    directory: BackupDirectory,
    options: Pick<Parameters<typeof takeBackup>[0], 'bytesPerSecond' | 'signal'> & {
      onProgress: (progress: object) => void
    },
  ) {
    const cluster = this.#cluster
    const { config, regions } = cluster
    await regions.refresh()
    const homes = () => JSON.stringify(config.regions.map((birth) => regions.homeOf(birth)))
    const begun = homes()
    const returning = config.regions.filter((birth) => regions.homeOf(birth).handedOver)
    if (returning.length > 0)
      throw new BackupFault(
        'UNUSABLE',
        `${returning.join(', ')} returns home: repeat it when that is complete`,
      )
    const unread: string[] = []
    const note = (message: string) => {
      if (unread.length < 1_000) unread.push(message)
    }
    const keyspaces = cluster.openWholeKeyspaces()
    const store = clusterBlobs(cluster)
    try {
      return await takeBackup({
        ...options,
        directory,
        clock: cluster.clock,
        rows: () => rowsOfCluster({ cluster, keyspaces, onDamaged: ({ message }) => note(message) }),
        blobs: {
          async *inventory() {
            if (homes() !== begun) throw new BackupFault('UNUSABLE', 'the homes of accounts moved: repeat it')
            yield* copiesOfCluster({ cluster, onIncomplete: note })
          },
          read: (...asked) => store.read(...asked),
        },
        cluster: { regions: config.regions, unread: () => unread },
      })
    } finally {
      await keyspaces.close()
      await store.close()
    }
  }

  /** Runs the work while all storage nodes are kept from deleting. */
  async #holding<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal } = this.#runs
    const { clock } = this.#cluster
    const held = await HeldCollectors.hold(this.#cluster, { by: randomUUID(), clock, signal })
    try {
      return await work(AbortSignal.any([signal, held.lost]))
    } finally {
      await held.release()
    }
  }
}
