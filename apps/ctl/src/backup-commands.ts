/**
 * Commands over everything. The running service takes backups and verifies itself; `restore` and
 * the verification of a backup run here, without a service.
 */
import { access, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  askUses,
  BackupDirectory,
  BackupFault,
  type RestoreTarget,
  readSegments,
  restoreBackup,
  type Snapshot,
  type VerifyResult,
  verifyBackup,
} from '@holdfast/backup'
import { BlobFault, type BlobInfo, nameOfCopy } from '@holdfast/blob-store'
import { StartFault, upgradeOf } from '@holdfast/bootstrap/data-format'
import { ChunkStore, chunkStoreDefaults } from '@holdfast/chunk-store'
import { JournalFault } from '@holdfast/journal'
import {
  LevelMetadataStore,
  metadataStoreDefaults,
  referenceOfRow,
  rowsOfJournals,
} from '@holdfast/journal-level'
import { absent, silentLog } from '@holdfast/kernel'
import { type AdminCall, AdminError } from './admin-client.ts'
import { type Command, json, known, type Options, parseNumber, type Step, UsageFault } from './command.ts'

const pollMs = 500
const progressEveryMs = 10_000
/** Names in a report. */
const leftOutMax = 1_000
/** Room that a restore leaves on the disk. */
const restoreReserveBytes = 64 * 1024 * 1024
/** Memory of a restore for pieces that are written, and for those that are read. */
const restoreMemoryBytes = 32 * 1024 * 1024
/** Extents that a restore has open at once. */
const restoreExtentsMax = 96

/** Runs that one process has, and a cluster has not. */
const noVerify =
  'a cluster does not verify itself: its storage nodes read all files again and repair them; ctl backup into a new directory names those that no node has undamaged (unreadable)'
const noMoves = 'a cluster has neither import nor export: use the API'

export const backupCommands: readonly Command[] = [
  {
    words: 'backup',
    usage: '<target directory> [--rate BYTES] [--key-file FILE] [--keep N] [--within DAYS]',
    meaning:
      'Writes a backup into a directory on the machine of the called process, while the service runs. Writes only data that the directory lacks. The backup shows one moment; in a cluster each account has a moment of its own. Repeat it after an interruption. --rate: bytes a second. --key-file: a file with 64 hexadecimal digits, which encrypt the backup. --keep, --within: after the backup only the newest N backups and those of the last DAYS days stay; without both, all stay.',
    options: { rate: 'string', 'key-file': 'string', keep: 'string', within: 'string' },
    plan: (words, { rate, 'key-file': keyFile, keep, within }) => {
      const body = {
        target: directoryOf(words),
        ...(rate === undefined ? {} : { bytesPerSecond: Math.max(1, parseNumber('rate', rate)) }),
        ...(typeof keyFile === 'string' ? { keyFile: resolve(keyFile) } : {}),
        ...(keep === undefined ? {} : { keep: parseNumber('keep', keep) }),
        ...(within === undefined ? {} : { withinDays: parseNumber('within', within) }),
      }
      return [
        {
          about: body.target,
          run: (call, printLine) => runOf(call, printLine, { path: '/admin/backup', body }),
        },
      ]
    },
  },
  {
    words: 'restore',
    usage: '<backup directory> <empty directory> [--at SNAPSHOT] [--key-file FILE] [--without-damaged]',
    meaning:
      'Makes a data directory from a backup, by default from its newest snapshot. Needs no service. It ends when files of the backup are damaged; with --without-damaged it restores all others, names these and exits with 1.',
    options: { at: 'string', 'key-file': 'string', 'without-damaged': 'boolean' },
    plan: ([from, to, ...others], options) => {
      if (to === undefined) throw new UsageFault('the backup or the new directory is missing')
      if (others.length > 0) throw new UsageFault(`unexpected argument: ${others.join(' ')}`)
      return [local('', async () => restore(directoryOf([from as string]), resolve(to), options))]
    },
  },
  {
    words: 'cluster restore',
    usage: '<backup directory> [--at SNAPSHOT] [--key-file FILE] [--without-damaged]',
    meaning:
      'Restores a cluster from a backup, a directory on the machine of the called process. The cluster is empty and has the same regions; its storage nodes run, and all other processes are stopped. Repeat it after an interruption. Then restart the storage nodes and start the others. --without-damaged: as of restore.',
    options: { at: 'string', 'key-file': 'string', 'without-damaged': 'boolean' },
    plan: (words, { at, 'key-file': keyFile, 'without-damaged': withoutDamaged }) => {
      const body = {
        from: directoryOf(words),
        ...(typeof at === 'string' ? { at } : {}),
        ...(typeof keyFile === 'string' ? { keyFile: resolve(keyFile) } : {}),
        withoutDamaged: withoutDamaged === true,
      }
      const run: Step['run'] = async (call, printLine) =>
        describeRestore(
          await runOf(call, printLine, { path: '/admin/restore', body, unknown: 'error-noCluster' }),
        )
      return [{ about: body.from, run }]
    },
  },
  {
    words: 'verify',
    usage: '[backup directory] [--at SNAPSHOT] [--key-file FILE]',
    meaning:
      'Reads every file of a backup, or of the running service if no backup is given. Names damaged and missing files with their paths and owners.',
    options: { at: 'string', 'key-file': 'string' },
    plan: (words, options) => {
      if (words.length === 0)
        return [
          {
            about: '',
            run: async (call, printLine) =>
              withoutBroken(
                await runOf(call, printLine, { path: '/admin/verify', body: {}, unknown: noVerify }),
              ),
          },
        ]
      const path = directoryOf(words)
      return [local('', async () => withoutBroken(await verifyAt(path, options)))]
    },
  },
  {
    words: 'import',
    usage: '<directory> [--account ID OR E-MAIL] [--folder ID]',
    meaning:
      'Stores a directory of the machine of the service in an account, with names and times: in a folder of its name, or in the folder that is named. Without an account it makes a guest. Repeat it after an interruption.',
    options: { account: 'string', folder: 'string' },
    plan: (words, { account, folder }) => {
      const directory = directoryOf(words)
      const into = typeof folder === 'string' ? { folder } : {}
      const run: Step['run'] = async (call, printLine) => {
        const importInto = (account: unknown) =>
          runOf(call, printLine, {
            path: '/admin/import',
            body: { directory, account, ...into },
            unknown: noMoves,
          })
        if (typeof account === 'string') return importInto(account)
        // No guest for a directory that cannot be read.
        const { fault } = await known(call('POST', '/admin/import/check', { directory }), noMoves)
        if (typeof fault === 'string') throw new AdminError(fault)
        const { id, token } = await call('POST', '/admin/accounts', {})
        printLine(`the guest ${id} with the token ${token}: to repeat it add --account ${id}`)
        return importInto(id)
      }
      return [{ about: directory, run }]
    },
  },
  {
    words: 'export',
    usage: '<id or e-mail> [directory]',
    meaning:
      'Writes the tree of an account to a directory on the machine of the service, by default one named like the account, with names and times, and compares every digest. Repeat it after an interruption.',
    plan: ([account, directory = account, ...others]) => {
      if (account === undefined) throw new UsageFault('the account is missing')
      const target = directoryOf([directory as string, ...others])
      const run: Step['run'] = async (call, printLine) =>
        withoutDamage(
          await runOf(call, printLine, {
            path: '/admin/export',
            body: { account, target },
            unknown: noMoves,
          }),
        )
      return [{ about: account, run }]
    },
  },
  {
    words: 'upgrade',
    usage: '<data directory> [--yes]',
    meaning:
      'Which release wrote a data directory last, whether this one opens it, and whether older ones open it after that. --yes agrees to a step that cannot be rolled back; without it no release takes such a step. Needs no service.',
    options: { yes: 'boolean' },
    plan: (words, { yes }) => {
      const path = directoryOf(words)
      return [
        local(path, async () => {
          await assertExists(path)
          return openable(await upgradeOf(path, { yes: yes === true }))
        }),
      ]
    },
  },
]

/**
 * Waits for a run of the service, and prints its progress.
 * @param begin.unknown said where the called process has no such run. Default: like a failure
 */
async function runOf(
  call: AdminCall,
  printLine: (line: string) => void,
  { path, body, unknown = 'error-notFound' }: { path: string; body: object; unknown?: string },
): Promise<string> {
  let run = await known(call('POST', path, body), unknown)
  const { id } = run
  for (let reportedMs = Date.now(); run.running === true; ) {
    await delay(pollMs)
    run = await call('GET', '/admin/run')
    if (run.id !== id) throw new AdminError('error-runLost')
    if (Date.now() - reportedMs < progressEveryMs) continue
    reportedMs = Date.now()
    printLine(JSON.stringify(run.progress))
  }
  if (run.failure !== undefined) throw new AdminError(String(run.failure))
  return json(run.outcome)
}

function withoutDamage(outcome: string): string {
  const { damaged } = JSON.parse(outcome) as { damaged: number }
  if (damaged > 0) throw new AdminError('files are damaged and were left out', { report: outcome })
  return outcome
}

/** A script must not continue with a start that would be refused. */
function openable(upgrade: Awaited<ReturnType<typeof upgradeOf>>): string {
  if (upgrade.opens) return json(upgrade)
  throw new AdminError(upgrade.answer, { report: json(upgrade) })
}

/** The report of a verification. @throws AdminError with it when it names damage. */
function withoutBroken(outcome: string): string {
  const { damaged, missing } = JSON.parse(outcome) as { damaged: number; missing: number }
  if (damaged + missing > 0) throw new AdminError('files are damaged or missing', { report: outcome })
  return outcome
}

async function verifyAt(path: string, options: Options): Promise<string> {
  const { directory, snapshot } = await openBackup(path, options)
  const verified = await verifyBackup(directory, snapshot, referenceOfRow)
  const outcome = await namedFrom(directory, snapshot, verified)
  return json({ ...outcome, takenMs: snapshot.takenMs, unreadableWhenTaken: snapshot.unreadable })
}

/** Names files of a backup: journals of the accounts in question are restored for a moment. */
async function namedFrom(directory: BackupDirectory, snapshot: Snapshot, verified: VerifyResult) {
  const accounts = new Set(verified.broken.flatMap((one) => one.accounts))
  if (accounts.size === 0) return askUses(verified, async () => ({}))
  // Loaded only here: it is rarely needed, and the code that reads accounts takes a while to load.
  const { storedAccounts, usesOfCopy } = await import('@holdfast/bootstrap/stored-accounts')
  const path = await mkdtemp(join(tmpdir(), 'holdfast-verify-'))
  try {
    const rows = rowsOfJournals(readSegments(directory, snapshot.rows), accounts)
    await LevelMetadataStore.restore(path, rows)
    const store = await LevelMetadataStore.open({
      ...metadataStoreDefaults,
      path,
      ballastBytes: 0,
      copyForReading: undefined,
      onFailure: () => {},
      onReopened: () => {},
      onDamage: () => {},
      onUnaudited: () => {},
    })
    try {
      const asked = storedAccounts(store.journals)
      return await askUses(verified, (account, copy) => usesOfCopy(asked, account, copy))
    } finally {
      await store.close()
    }
  } finally {
    await rm(path, { recursive: true, force: true })
  }
}

/** @throws AdminError when something was left out. */
function describeRestore(outcome: string): string {
  if ((JSON.parse(outcome) as { damaged: number }).damaged === 0) return outcome
  throw new AdminError('everything but what leftOut names is restored', { report: outcome })
}

/**
 * Both stores are made beside their places and moved there at the end, so an interrupted restore
 * is never taken for an installation.
 */
async function restore(from: string, to: string, options: Options): Promise<string> {
  const { directory, snapshot } = await openBackup(from, options)
  if (snapshot.regions !== undefined)
    throw new BackupFault('UNUSABLE', `${from} is the backup of a cluster: ctl cluster restore`)
  await mkdir(to, { recursive: true, mode: 0o700 })
  const unfinished = join(to, 'restoring')
  // An earlier restore was killed between its two moves: the metadata, which is moved last, is
  // still beside its place.
  const waiting = await stat(join(unfinished, 'metadata')).catch(absent)
  if (waiting !== undefined && (await stat(join(to, 'metadata')).catch(absent)) === undefined)
    await rm(join(to, 'blobs'), { recursive: true, force: true })
  await rm(unfinished, { recursive: true, force: true })
  if ((await readdir(to)).some((name) => name !== 'lost+found'))
    throw new BackupFault('UNUSABLE', `${to} is not empty`)
  await mkdir(unfinished, { mode: 0o700 })
  const blobs = await ChunkStore.open({
    ...chunkStoreDefaults,
    path: join(unfinished, 'blobs'),
    cataloguesIn: undefined,
    direct: true,
    uploadMemoryBytes: restoreMemoryBytes,
    cacheBytes: restoreMemoryBytes,
    lowWaterBytes: restoreReserveBytes,
    openExtentsMax: restoreExtentsMax,
    pinnedAtFirstMs: 0,
    catalogue: undefined,
    log: silentLog,
  })
  const left: string[] = []
  let damaged = 0
  const leaveOut = (copy: BlobInfo, { message }: Error) => {
    if (options['without-damaged'] !== true)
      throw new BackupFault(
        'DAMAGED',
        `${message}: ctl verify ${from} names what is damaged, --without-damaged restores the rest`,
      )
    damaged++
    if (left.length < leftOutMax) left.push(nameOfCopy(copy))
  }
  try {
    const putRows: RestoreTarget['putRows'] = (rows) =>
      LevelMetadataStore.restore(join(unfinished, 'metadata'), rows)
    await restoreBackup(directory, snapshot, { blobs, putRows }, leaveOut)
  } finally {
    await blobs.close()
  }
  for (const name of ['blobs', 'metadata']) await rename(join(unfinished, name), join(to, name))
  await rm(unfinished, { recursive: true })
  const { takenMs, figures, unreadable } = snapshot
  const outcome = { takenMs, ...figures, unreadable, damaged, leftOut: left }
  if (damaged === 0) return json(outcome)
  throw new AdminError('everything but the files in leftOut is restored', { report: json(outcome) })
}

async function openBackup(path: string, { at, 'key-file': keyFile }: Options) {
  await assertExists(path)
  const directory = await BackupDirectory.open(path, {
    keyFile: typeof keyFile === 'string' ? resolve(keyFile) : undefined,
  })
  return { directory, snapshot: await directory.snapshot(typeof at === 'string' ? at : undefined) }
}

async function assertExists(path: string): Promise<void> {
  await access(path).catch((error: NodeJS.ErrnoException) => {
    const reason = error.code === 'ENOENT' ? 'does not exist' : `cannot be read: ${error.message}`
    throw new BackupFault('UNUSABLE', `${path} ${reason}`, { cause: error })
  })
}

/** Work without the service; its faults name their paths, and are reported like refusals. */
function local(about: string, run: () => Promise<string>): Step {
  return {
    about,
    run: async () => {
      try {
        return await run()
      } catch (error) {
        if (
          error instanceof BackupFault ||
          error instanceof BlobFault ||
          error instanceof JournalFault ||
          error instanceof StartFault
        )
          throw new AdminError(error.message)
        throw error
      }
    },
  }
}

function directoryOf([path, ...others]: string[]): string {
  if (path === undefined) throw new UsageFault('the directory is missing')
  if (others.length > 0) throw new UsageFault(`unexpected argument: ${others.join(' ')}`)
  return resolve(path)
}
