/**
 * Detects that the end of the log is lost.
 *
 * LevelDB opens without complaint when its write-ahead log is damaged: it drops the rest of the
 * block, possibly everything from there to the end. A hole is visible in the chains of the
 * accounts. A missing end removes static rows and rows together, and leaves a sound store of an
 * earlier moment. So there is a second, small record of what was acknowledged: after each synced
 * batch, before any caller is answered, one entry (the batch's number and its newest numbers) is
 * appended to the audit, without a separate sync. And each batch leaves its number in one of 32,768
 * markers of the store. A batch that the audit names and the markers lack at opening was lost, and
 * the entry says which accounts and counters it changed.
 *
 * The audit survives the death of the process, not always that of the machine: it then lacks its
 * own last entries and detects less, but never reports falsely, because an entry is written only
 * when its batch is on disk. It is not a second log: it holds digests and numbers, and nothing can
 * be restored from it.
 */
import { hash } from 'node:crypto'
import { write as writeFd } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { AuditNote } from './group-writer.ts'

/**
 * Two files take turns; together they always reach back further than the write-ahead log of 4 MiB.
 */
const fileBytesMax = 8 * 1024 * 1024
const fileNames = ['witness.0', 'witness.1'] as const
/** A lack of descriptors ends after some batches; each attempt costs the batch a failed call. */
const missedMax = 100
const magic = 'HFWITNS1'
const headerBytes = 8 + 16
const entryHeaderBytes = 4 + 4 + 8 + 2
const digestBytes = 16
const noteBytes = digestBytes + 8 + 8

export interface AuditEntry {
  batch: number
  notes: DigestNote[]
}

/** A note with the digest of its subject as hex. */
export interface DigestNote {
  digest: string
  epoch: number
  number: number
}

/** Acknowledged and missing: newest numbers by subject. */
export class Suspicions {
  readonly #newest = new Map<string, DigestNote>()

  /** @returns what is known now */
  add(note: DigestNote): DigestNote {
    const known = this.#newest.get(note.digest)
    const epoch = Math.max(note.epoch, known?.epoch ?? 0)
    const number = Math.max(note.number, known?.number ?? 0)
    const newest = { digest: note.digest, epoch, number }
    this.#newest.set(note.digest, newest)
    return newest
  }

  suspect(subject: string, note: { epoch: number; number: number }): DigestNote {
    return this.add({ digest: subjectDigest(subject), ...note })
  }

  newest(subject: string): DigestNote | undefined {
    return this.#newest.size === 0 ? undefined : this.#newest.get(subjectDigest(subject))
  }

  *[Symbol.iterator](): Iterator<DigestNote> {
    yield* this.#newest.values()
  }
}

export class CommitAudit {
  readonly #directory: string
  readonly #store: Uint8Array
  #turn: 0 | 1 = 0
  #file: FileHandle | undefined
  #offset = 0
  #ended = false
  /** Batches since its file could not be written. */
  #missed = 0
  /** Why the last entry was not written. */
  fault: unknown

  private constructor(directory: string, store: Uint8Array) {
    this.#directory = directory
    this.#store = store
  }

  /** Restarts: what earlier runs left has been read and compared. */
  static async begin(directory: string, store: Uint8Array): Promise<CommitAudit> {
    const audit = new CommitAudit(directory, store)
    await rm(join(directory, fileNames[1]), { force: true })
    await audit.#turnTo(0)
    return audit
  }

  /**
   * Never fails: without its audit the store is as safe as before, it only detects less. After a
   * failure it retries with a new file.
   *
   * @returns false: the batch has no entry, `fault` says why.
   */
  async note(batch: number, notes: readonly AuditNote[]): Promise<boolean> {
    if (this.#ended || (this.#file === undefined && ++this.#missed < missedMax)) return false
    const entry = encodeEntry(batch, newestOf(notes))
    try {
      if (this.#file === undefined || this.#offset + entry.length > fileBytesMax)
        await this.#turnTo(this.#turn === 0 ? 1 : 0)
      await writeAll((this.#file as FileHandle).fd, entry, this.#offset)
      this.#offset += entry.length
      return true
    } catch (error) {
      this.fault = error
      await this.#drop()
      return false
    }
  }

  async close(): Promise<void> {
    this.#ended = true
    await this.#drop()
  }

  async #drop(): Promise<void> {
    this.#missed = 0
    const file = this.#file
    this.#file = undefined
    await file?.close().catch(() => {})
  }

  async #turnTo(turn: 0 | 1): Promise<void> {
    await this.#drop()
    this.#turn = turn
    this.#file = await open(join(this.#directory, fileNames[turn]), 'w', 0o600)
    const header = Buffer.concat([Buffer.from(magic), this.#store])
    await writeAll(this.#file.fd, header, 0)
    this.#offset = headerBytes
  }
}

/**
 * By descriptor: a batch waits for its entry, and the file handle's own promises cost time. A short
 * write counts as failed.
 */
function writeAll(fd: number, bytes: Buffer, position: number): Promise<void> {
  return new Promise((resolve, reject) => {
    writeFd(fd, bytes, 0, bytes.length, position, (error, count) => {
      if (error === null && count === bytes.length) resolve()
      else reject(error ?? new Error(`${count} of ${bytes.length} bytes were written`))
    })
  })
}

/**
 * All entries that belong to this store, of each file up to the first incomplete one. A file that
 * the disk cannot read has none, like a damaged one: less is detected, and nothing is lost.
 */
export async function readEntries(directory: string, store: Uint8Array): Promise<AuditEntry[]> {
  const files = fileNames.map((name) => readIfThere(join(directory, name)))
  return (await Promise.all(files)).flatMap((bytes) => entriesOf(bytes, store))
}

/** The name of the store whose audit lies there. */
export async function storeOfAudit(directory: string): Promise<Uint8Array | undefined> {
  for (const name of fileNames) {
    const bytes = await readIfThere(join(directory, name))
    if (bytes.length >= headerBytes && bytes.subarray(0, magic.length).equals(Buffer.from(magic)))
      return Buffer.from(bytes.subarray(magic.length, headerBytes))
  }
  return undefined
}

function entriesOf(bytes: Buffer, store: Uint8Array): AuditEntry[] {
  const header = Buffer.concat([Buffer.from(magic), store])
  if (!bytes.subarray(0, headerBytes).equals(header)) return []
  const entries: AuditEntry[] = []
  let at = headerBytes
  for (let entry = entryAt(bytes, at); entry !== undefined; entry = entryAt(bytes, at)) {
    entries.push(decodeEntry(entry))
    at += entry.length
  }
  return entries
}

export function encodeEntry(batch: number, notes: readonly AuditNote[]): Buffer {
  const entry = Buffer.alloc(entryHeaderBytes + notes.length * noteBytes)
  entry.writeUInt32BE(entry.length, 0)
  entry.writeBigUInt64BE(BigInt(batch), 8)
  entry.writeUInt16BE(notes.length, 16)
  let at = entryHeaderBytes
  for (const note of notes) {
    entry.write(subjectDigest(note.subject), at, 'hex')
    entry.writeBigUInt64BE(BigInt(note.epoch), at + digestBytes)
    entry.writeBigUInt64BE(BigInt(note.number), at + digestBytes + 8)
    at += noteBytes
  }
  entry.writeUInt32BE(crc32(entry.subarray(8)), 4)
  return entry
}

function decodeEntry(entry: Buffer): AuditEntry {
  const notes = Array.from({ length: entry.readUInt16BE(16) }, (_, index) => {
    const at = entryHeaderBytes + index * noteBytes
    return {
      digest: entry.toString('hex', at, at + digestBytes),
      epoch: Number(entry.readBigUInt64BE(at + digestBytes)),
      number: Number(entry.readBigUInt64BE(at + digestBytes + 8)),
    }
  })
  return { batch: Number(entry.readBigUInt64BE(8)), notes }
}

function entryAt(bytes: Buffer, at: number): Buffer | undefined {
  if (at + entryHeaderBytes > bytes.length) return undefined
  const length = bytes.readUInt32BE(at)
  if (length < entryHeaderBytes || at + length > bytes.length) return undefined
  const entry = bytes.subarray(at, at + length)
  const whole =
    entry.readUInt32BE(4) === crc32(entry.subarray(8)) &&
    entry.length === entryHeaderBytes + entry.readUInt16BE(16) * noteBytes
  return whole ? entry : undefined
}

/**
 * The last note of each subject in a batch is sufficient. A batch of 4 MiB holds fewer than the
 * 65,535 that an entry can count.
 */
function newestOf(notes: readonly AuditNote[]): AuditNote[] {
  const bySubject = new Map(notes.map((note) => [note.subject, note]))
  return [...bySubject.values()]
}

/** How an entry names a subject. */
export function subjectDigest(subject: string): string {
  return hash('sha256', subject).slice(0, digestBytes * 2)
}

async function readIfThere(path: string): Promise<Buffer> {
  try {
    await using file = await open(path, 'r')
    return await file.readFile()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'EIO') return Buffer.alloc(0)
    throw error
  }
}
