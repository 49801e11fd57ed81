/** One LevelDB that holds the journals and the lookups of an installation in one process. */
import { randomBytes } from 'node:crypto'
import { open, readFile, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { JournalFault, type JournalStore, type LookupStore } from '@holdfast/journal'
import { makeDirectories } from '@holdfast/kernel'
import {
  decodeNumber,
  decodeSmall,
  encodeNumber,
  encodeSmall,
  formatVersion,
  isWhole,
  keys,
  markerSlots,
} from './format.ts'
import { GroupWriter, type RowChange } from './group-writer.ts'
import { LevelJournals } from './level-journals.ts'
import { LevelLookups } from './level-lookups.ts'
import { Rows } from './rows.ts'
import { readWitness, Suspicions, Witness, type WitnessedFact } from './witness.ts'

export interface LevelMetadataStoreOptions {
  /** Directory of its own; made when missing. Holding the store is holding this directory exclusively. */
  path: string
  /** Accounts whose static facts are kept in memory, some 300 bytes each; others are read again. Default 20,000. */
  cachedAccounts?: number
  /** Told once when a write failed and nothing is written any more until the store is opened again. */
  onFailure?: (fault: JournalFault) => void
  /** Stands between the store and the disk, for tests: fails or delays a batch instead of committing it. */
  commit?: (changes: RowChange[], commit: () => Promise<void>) => Promise<void>
}

export class LevelMetadataStore {
  readonly journals: JournalStore
  readonly lookups: LookupStore
  /**
   * Acknowledged batches that are known to be lost, over the whole life of the store. Above 0 no lookup may be concluded absent from the
   * fact that it is not found: whoever deletes because a reference is missing must not.
   */
  readonly lostBatches: number
  readonly #rows: Rows
  readonly #writer: GroupWriter
  readonly #witness: Witness

  private constructor(parts: {
    rows: Rows
    writer: GroupWriter
    witness: Witness
    suspicions: Suspicions
    lostBatches: number
    cachedAccounts: number
  }) {
    this.journals = new LevelJournals(parts)
    this.lookups = new LevelLookups(parts)
    this.lostBatches = parts.lostBatches
    this.#rows = parts.rows
    this.#writer = parts.writer
    this.#witness = parts.witness
  }

  /**
   * Opens or makes the store. What an earlier process acknowledged is there, or is noticed to be missing.
   *
   * @throws JournalFault `UNAVAILABLE` when another process holds the directory (the message names it) or a newer release wrote it;
   *   `CORRUPT` when LevelDB cannot read it at all.
   */
  static async open(options: LevelMetadataStoreOptions): Promise<LevelMetadataStore> {
    const path = resolve(options.path)
    await makeDurably(join(path, 'rows'))
    const rows = await openAlone(path)
    try {
      const store = await identify(rows)
      const found = await inspect(rows, { path, store })
      const witness = await Witness.begin(path, store)
      const writer = new GroupWriter(
        {
          commit: (changes) => {
            const commit = () => rows.commit(changes)
            return options.commit?.(changes, commit) ?? commit()
          },
          seal: markerOf,
          witness: (batch, facts) => witness.note(batch, facts),
          onFailure: options.onFailure ?? (() => {}),
        },
        found,
      )
      return new LevelMetadataStore({
        rows,
        writer,
        witness,
        cachedAccounts: options.cachedAccounts ?? 20_000,
        ...found,
      })
    } catch (error) {
      await rows.close()
      throw error
    }
  }

  /** Why nothing is written any more, undefined while all is well. */
  get failure(): JournalFault | undefined {
    return this.#writer.failure
  }

  /** Writes what is queued, then lets go of the directory. Everything else is refused as `CLOSED`. */
  async close(): Promise<void> {
    await this.#writer.close()
    await this.#witness.close()
    await this.#rows.close()
  }
}

/** LevelDB's own lock is the exclusive one; the file beside it only says whose it is. */
async function openAlone(path: string): Promise<Rows> {
  const holder = join(path, 'holder')
  try {
    const rows = await Rows.open(join(path, 'rows'))
    await writeFile(holder, `process ${process.pid} on ${hostname()} since ${new Date().toISOString()}\n`)
    return rows
  } catch (error) {
    if (!isLocked(error)) throw error
    const who = (await readFile(holder, 'utf8').catch(() => 'another process')).trim()
    throw new JournalFault('UNAVAILABLE', `the metadata store ${path} is held by ${who}`, { cause: error })
  }
}

function isLocked(error: unknown): boolean {
  const cause = (error as Error).cause as { code?: string } | undefined
  return cause?.code === 'LEVEL_LOCKED'
}

/** Checks the version and gives the store its name for ever: 16 random bytes. */
async function identify(rows: Rows): Promise<Uint8Array> {
  const format = await numberAt(rows, keys.meta('format'))
  if (format > formatVersion) {
    const versions = `format ${format}, this release reads up to ${formatVersion}`
    throw new JournalFault('UNAVAILABLE', `the metadata store has ${versions}`)
  }
  const key = keys.meta('store')
  const stored = await rows.get(key)
  if (format > 0 && stored !== undefined) return decodeSmall(key, stored)
  for await (const _ of rows.scan({}, { limit: 1 })) {
    throw new JournalFault('CORRUPT', 'the metadata store has rows but lost its name or format')
  }
  const name = randomBytes(16)
  const named: RowChange = { type: 'put', key, value: encodeSmall(key, name) }
  await rows.commit([numberRow(keys.meta('format'), formatVersion), named])
  return name
}

/**
 * Compares what the witness saw with what there is, and keeps for good what is missing. Opening moved LevelDB's log into tables, so what was
 * compared once need not be again: only batches behind the last comparison are judged.
 */
async function inspect(rows: Rows, { path, store }: { path: string; store: Uint8Array }) {
  const checked = await numberAt(rows, keys.meta('checked'))
  const marked = await markedBatches(rows)
  const seen = (await readWitness(path, store)).filter(({ batch }) => batch > checked)
  const newest = [...marked].reduce((most, batch) => Math.max(most, batch), checked)
  const lost = seen.filter(({ batch }) => batch > newest - markerSlots && !marked.has(batch))
  const last = seen.reduce((most, { batch }) => Math.max(most, batch), newest)
  const suspicions = await knownSuspicions(rows)
  for (const { facts } of lost) for (const fact of facts) suspicions.add(fact)
  const lostBatches = (await numberAt(rows, keys.meta('lost'))) + lost.length
  await rows.commit([
    ...[...suspicions].map(suspicionRow),
    numberRow(keys.meta('lost'), lostBatches),
    numberRow(keys.meta('checked'), last),
  ])
  return { suspicions, lostBatches, nextBatch: last + 1 }
}

function markerOf(batch: number): RowChange {
  return numberRow(keys.marker(batch), batch)
}

/** A damaged marker is no marker: its batch counts as lost, which it may well be. */
async function markedBatches(rows: Rows): Promise<Set<number>> {
  const marked = new Set<number>()
  for await (const [key, stored] of rows.scan(keys.markers)) {
    if (isWhole(key, stored)) marked.add(decodeNumber(key, stored))
  }
  return marked
}

async function knownSuspicions(rows: Rows): Promise<Suspicions> {
  const suspicions = new Suspicions()
  for await (const [key, stored] of rows.scan(keys.suspects)) {
    const numbers = decodeSmall(key, stored)
    suspicions.add({
      digest: keys.suspectOf(key),
      epoch: Number(numbers.readBigUInt64BE(0)),
      number: Number(numbers.readBigUInt64BE(8)),
    })
  }
  return suspicions
}

function suspicionRow({ digest, epoch, number }: WitnessedFact): RowChange {
  const key = keys.suspect(digest)
  const value = Buffer.alloc(16)
  value.writeBigUInt64BE(BigInt(epoch), 0)
  value.writeBigUInt64BE(BigInt(number), 8)
  return { type: 'put', key, value: encodeSmall(key, value) }
}

async function numberAt(rows: Rows, key: Uint8Array): Promise<number> {
  const stored = await rows.get(key)
  return stored === undefined ? 0 : decodeNumber(key, stored)
}

function numberRow(key: Uint8Array, number: number): RowChange {
  return { type: 'put', key, value: encodeNumber(key, number) }
}

/** Makes the directory and syncs all that were made, so that a power cut does not take them. */
async function makeDurably(path: string): Promise<void> {
  const first = await makeDirectories(path)
  if (first === undefined) return
  for (let at = path; at.length >= first.length; at = dirname(at)) await syncDirectory(at)
  await syncDirectory(dirname(first))
}

async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, 'r')
  await directory.sync()
}
