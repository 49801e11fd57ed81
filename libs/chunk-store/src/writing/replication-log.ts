/**
 * Stored and deleted copies, for other nodes: entries in the catalogue, in the same batch as the
 * change.
 *
 * A batch follows its change, and only entries of synced batches are returned. A start without a
 * clean shutdown begins a new life with its own positions: entries that were acknowledged and not
 * yet written are in no log then, and followers compare inventories.
 */
import {
  BlobFault,
  type BlobName,
  type LogEntry,
  type PullAnswer,
  type PullQuery,
} from '@holdfast/blob-store'
import type { Clock } from '@holdfast/kernel'
import type { Catalogue } from '../catalogue/catalogue.ts'
import {
  decodeLogRow,
  logKey,
  logPrefix,
  logPrefixOf,
  logSequenceOf,
  tombstoneKey,
  tombstonePrefix,
} from '../catalogue/rows.ts'
import type { Log } from '../log.ts'
import { getU64 } from '../numbers.ts'
import type { Ledger } from './ledger.ts'

const limitMax = 10_000
/** Old entries and tombstones are looked for this often. */
const trimEveryMs = 3_600_000
const trimBatch = 1_000

export class ReplicationLog {
  readonly #ledger: Ledger
  readonly #catalogue: Catalogue
  readonly #clock: Clock
  readonly #log: Log
  readonly #retentionMs: number
  readonly #trimmer: NodeJS.Timeout
  #trimming: Promise<void> | undefined
  #closed = false

  constructor(deps: { ledger: Ledger; catalogue: Catalogue; clock: Clock; log: Log; retentionMs: number }) {
    this.#ledger = deps.ledger
    this.#catalogue = deps.catalogue
    this.#clock = deps.clock
    this.#log = deps.log
    this.#retentionMs = deps.retentionMs
    this.#trimmer = setInterval(() => {
      this.trim().catch((error: Error) =>
        this.#log.warn({ error: error.message }, 'old entries of the replication log stay for now'),
      )
    }, trimEveryMs).unref()
  }

  async pull({ after, limit, groups }: PullQuery): Promise<PullAnswer> {
    if (!(limit >= 1 && limit <= limitMax)) throw new BlobFault('INVALID', `${limit} entries at once`)
    const nowMs = this.#clock.now()
    const { info } = this.#ledger
    const { life } = info
    const head = await this.#ledger.syncLog()
    const known =
      after !== undefined &&
      Buffer.compare(after.store, life) === 0 &&
      after.sequence >= info.logDropped &&
      after.sequence <= head
    if (!known) return { kind: 'unknown position', now: { store: Buffer.from(life), sequence: head }, nowMs }
    const rows = await this.#catalogue.scan(logPrefixOf(life), { after: logKey(life, after.sequence), limit })
    const entries: LogEntry[] = []
    let through = after.sequence
    for (const { key, value } of rows) {
      const sequence = logSequenceOf(key)
      if (sequence > head) break // written meanwhile, and not synced
      through = sequence
      const { deleted, atMs: _, ...copy } = decodeLogRow(value)
      if (groups?.includes(copy.placementGroup) === false) continue
      const { id, incarnation, placementGroup } = copy
      entries.push(
        deleted
          ? { kind: 'deleted', sequence, copy: { id, incarnation, placementGroup } }
          : { kind: 'committed', sequence, copy: { ...copy, damaged: undefined } },
      )
    }
    const position = { store: Buffer.from(life), sequence: through }
    return { kind: 'entries', entries, through: position, behind: head - through, nowMs }
  }

  async deletedMs({ id, incarnation }: BlobName): Promise<number | undefined> {
    const key = tombstoneKey(id, incarnation)
    const noted = this.#ledger.noted(key)
    const [row] = noted === undefined ? await this.#catalogue.get([key]) : [noted.value]
    const deletedMs = row && getU64(row, 0)
    return deletedMs === undefined || deletedMs < this.#clock.now() - this.#retentionMs
      ? undefined
      : deletedMs
  }

  /** Drops what is older than the retention, and entries of earlier lives. */
  trim(): Promise<void> {
    this.#trimming ??= this.#trim().finally(() => {
      this.#trimming = undefined
    })
    return this.#trimming
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#trimmer)
    await this.#trimming?.catch(() => {})
  }

  async #trim(): Promise<void> {
    const beforeMs = this.#clock.now() - this.#retentionMs
    const { info } = this.#ledger
    const own = logPrefixOf(info.life)
    await this.#drop(logPrefix, (key, value) => {
      if (!key.subarray(0, own.length).equals(own)) return true
      if (decodeLogRow(value).atMs >= beforeMs) return false
      info.logDropped = Math.max(info.logDropped, logSequenceOf(key))
      return true
    })
    await this.#drop(tombstonePrefix, (_, value) => getU64(value, 0) < beforeMs)
  }

  async #drop(prefix: Buffer, isOld: (key: Buffer, value: Buffer) => boolean): Promise<void> {
    let after: Buffer | undefined
    while (!this.#closed) {
      const rows = await this.#catalogue.scan(prefix, { after, limit: trimBatch })
      for (const { key, value } of rows) if (isOld(key, value)) this.#ledger.note(key, undefined)
      await this.#ledger.flush()
      after = rows.at(-1)?.key
      if (after === undefined) return
    }
  }
}
