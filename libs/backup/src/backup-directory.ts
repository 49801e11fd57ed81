/**
 * The directory of a backup: immutable objects, and snapshots that name them.
 *
 * An object gets its name after it was written, synced and read back. A snapshot is written after
 * all its objects and their directories are synced. So a kill or a power cut at any point leaves
 * the earlier snapshots whole, and objects that the next run uses.
 */

import { createHash, randomBytes } from 'node:crypto'
import { constants, createReadStream } from 'node:fs'
import { access, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { hex, syncDirectory } from '@holdfast/kernel'
import { BackupFault } from './errors.ts'
import { Encryption, type ObjectSealer, type Pieces, plain } from './object-sealer.ts'
import { parseSnapshot, type Snapshot } from './snapshot.ts'

const format = 1
/** For the owner alone: the objects are what the service protects. */
const directoryMode = 0o700
const fileMode = 0o600
/** 32 random bytes as hex, as `openssl rand -hex 32` prints them. */
const keyText = /^[0-9a-f]{64}$/i

/** Codes of faults of the machine or of rights. After such a fault the object may be undamaged. */
const notOfTheObject: ReadonlySet<string> = new Set([
  ...['EMFILE', 'ENFILE', 'ENOMEM', 'EACCES', 'EPERM', 'ESTALE', 'ETIMEDOUT'],
])

export class BackupDirectory {
  readonly path: string
  readonly #sealing: ObjectSealer

  private constructor(path: string, sealing: ObjectSealer) {
    this.path = path
    this.#sealing = sealing
  }

  /**
   * Opens a backup; makes one in an empty or new directory if `make` says so.
   * @param options.keyFile of an encrypted backup: a file with 64 hexadecimal digits.
   * @throws BackupFault `UNUSABLE`.
   */
  static async open(
    path: string,
    { keyFile, make = false }: { keyFile?: string | undefined; make?: boolean } = {},
  ): Promise<BackupDirectory> {
    const about = join(path, 'backup.json')
    const secret = keyFile === undefined ? undefined : await secretIn(keyFile)
    let reported = await readFile(about, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined
      throw new BackupFault('UNUSABLE', `${path} cannot be read: ${error.message}`, { cause: error })
    })
    if (make) await makeWritable(path)
    if (reported === undefined) {
      if (!make) throw new BackupFault('UNUSABLE', `${path} has no backup`)
      if ((await readdir(path)).some((name) => name !== 'tmp' && name !== 'lost+found'))
        throw new BackupFault('UNUSABLE', `${path} is neither empty nor a backup`)
      reported = aboutOf(secret)
    }
    const sealing = sealingOf(path, reported, secret)
    const directory = new BackupDirectory(path, sealing)
    if (make) {
      await rm(join(path, 'tmp'), { recursive: true, force: true })
      for (const name of ['tmp', 'objects', 'snapshots'])
        await mkdir(join(path, name), { recursive: true, mode: directoryMode })
      await directory.#publish(about, [Buffer.from(reported)])
    }
    return directory
  }

  async has(object: string): Promise<boolean> {
    return access(this.#fileOf(object)).then(
      () => true,
      () => false,
    )
  }

  /** @param check reads it back before it gets its name, and throws when it is not right. */
  async put(
    object: string,
    bytes: Pieces,
    check: (bytes: AsyncIterable<Uint8Array>) => Promise<void>,
  ): Promise<void> {
    const file = this.#fileOf(object)
    await mkdir(dirname(file), { recursive: true, mode: directoryMode })
    await this.#publish(file, this.#sealing.seal(object, bytes), (written) =>
      check(this.#sealing.unseal(object, written)),
    )
  }

  /** @throws BackupFault `DAMAGED` when it is missing or cannot be read. */
  async *read(object: string): AsyncGenerator<Uint8Array> {
    yield* this.#sealing.unseal(object, this.#bytesOf(this.#fileOf(object), object))
  }

  /**
   * Moves a damaged object out of the way, so that the next backup writes it again. Nothing happens
   * when it is missing, or the directory cannot be written.
   * @throws BackupFault `UNUSABLE` for any other fault.
   */
  async setAside(object: string): Promise<void> {
    const aside = join(this.path, 'damaged')
    try {
      await mkdir(aside, { recursive: true, mode: directoryMode })
      await rename(this.#fileOf(object), join(aside, this.nameOf(object)))
    } catch (error) {
      const { code = '', message } = error as NodeJS.ErrnoException
      if (['ENOENT', 'EROFS', 'EACCES', 'EPERM', 'ENOSPC'].includes(code)) return
      throw new BackupFault('UNUSABLE', `${object} is damaged and cannot be set aside: ${message}`, {
        cause: error,
      })
    }
  }

  /** Times of the snapshots, the oldest first. */
  async snapshots(): Promise<string[]> {
    return (await readdir(join(this.path, 'snapshots')).catch(() => [])).sort()
  }

  /** Everything that the snapshot names was put before. */
  async putSnapshot(snapshot: Snapshot): Promise<string> {
    for (const name of await readdir(join(this.path, 'objects')))
      await syncDirectory(join(this.path, 'objects', name))
    await syncDirectory(join(this.path, 'objects'))
    const time = new Date(snapshot.takenMs).toISOString().replaceAll(':', '.')
    const text = JSON.stringify({ ...snapshot, digest: digestOfSnapshot(snapshot) })
    const file = join(this.path, 'snapshots', time)
    await this.#publish(file, this.#sealing.seal(`snapshot/${time}`, [Buffer.from(text)]))
    await syncDirectory(dirname(file))
    return time
  }

  /** @param time one of `snapshots`; absent: the newest. @throws BackupFault. */
  async snapshot(time?: string): Promise<Snapshot> {
    const times = await this.snapshots()
    const wanted = time ?? times.at(-1)
    if (wanted === undefined || !times.includes(wanted))
      throw new BackupFault(
        'UNUSABLE',
        `${this.path} has no ${time === undefined ? 'complete snapshot' : `snapshot ${time}`}`,
      )
    const name = `snapshot/${wanted}`
    const bytes = this.#sealing.unseal(name, this.#bytesOf(join(this.path, 'snapshots', wanted), name))
    const { digest, ...snapshot } = parseSnapshot(Buffer.concat(await Array.fromAsync(bytes)), name)
    if (digest !== digestOfSnapshot(snapshot))
      throw new BackupFault('DAMAGED', `${name} is not what was written`)
    return snapshot
  }

  /** The file name of an object. */
  nameOf(object: string): string {
    return this.#sealing.nameOf(object)
  }

  /** File names of all objects. */
  async *objects(): AsyncGenerator<string> {
    const path = join(this.path, 'objects')
    for (const folder of await readdir(path)) yield* await readdir(join(path, folder))
  }

  /** @returns its bytes on the disk. */
  async removeObject(name: string): Promise<number> {
    const file = this.#fileNamed(name)
    const { size } = await stat(file)
    await rm(file)
    return size
  }

  /** Durable when it resolves: objects that it alone names may be removed. */
  async removeSnapshot(time: string): Promise<void> {
    const file = join(this.path, 'snapshots', time)
    await rm(file)
    await syncDirectory(dirname(file))
  }

  #fileOf(object: string): string {
    return this.#fileNamed(this.nameOf(object))
  }

  #fileNamed(name: string): string {
    return join(this.path, 'objects', name.slice(0, 2), name)
  }

  async *#bytesOf(file: string, object: string): AsyncGenerator<Uint8Array> {
    try {
      yield* createReadStream(file, { highWaterMark: 256 * 1024 }) as AsyncIterable<Buffer>
    } catch (error) {
      const reason = (error as { code?: string }).code ?? (error as Error).message
      const code = notOfTheObject.has(reason) ? 'UNUSABLE' : 'DAMAGED'
      throw new BackupFault(code, `${object} cannot be read: ${reason}`, { cause: error })
    }
  }

  async #publish(
    file: string,
    bytes: Pieces,
    check?: (written: AsyncIterable<Uint8Array>) => Promise<void>,
  ): Promise<void> {
    const unnamed = join(this.path, 'tmp', hex(randomBytes(8)))
    try {
      await using handle = await open(unnamed, 'wx', fileMode)
      for await (const piece of bytes) await handle.writeFile(piece)
      await handle.sync()
      await check?.(this.#bytesOf(unnamed, file))
      await rename(unnamed, file)
    } catch (error) {
      await rm(unnamed, { force: true })
      throw error
    }
  }
}

function aboutOf(secret: Buffer | undefined): string {
  if (secret === undefined) return `${JSON.stringify({ format })}\n`
  const salt = randomBytes(32)
  const check = new Encryption(secret, salt).nameOf('check')
  return `${JSON.stringify({ format, cipher: 'aes-256-gcm', salt: hex(salt), check })}\n`
}

function sealingOf(path: string, reported: string, secret: Buffer | undefined): ObjectSealer {
  let about: { format?: unknown; salt?: unknown; check?: unknown }
  try {
    about = JSON.parse(reported)
  } catch (error) {
    throw new BackupFault('UNUSABLE', `${path}: backup.json cannot be read`, { cause: error })
  }
  if (about.format !== format)
    throw new BackupFault('UNUSABLE', `${path} has format ${about.format}, this release reads ${format}`)
  if (about.salt === undefined) {
    if (secret === undefined) return plain
    throw new BackupFault(
      'UNUSABLE',
      `${path} is not encrypted: leave the key file out, or use a new directory`,
    )
  }
  if (secret === undefined) throw new BackupFault('UNUSABLE', `${path} is encrypted: name its key file`)
  const encryption = new Encryption(secret, Buffer.from(String(about.salt), 'hex'))
  if (encryption.nameOf('check') === about.check) return encryption
  throw new BackupFault('UNUSABLE', `the key file is not that of ${path}`)
}

async function secretIn(keyFile: string): Promise<Buffer> {
  const text = await readFile(keyFile, 'utf8').catch((error) => {
    throw new BackupFault('UNUSABLE', `the key file cannot be read: ${error.message}`, { cause: error })
  })
  if (keyText.test(text.trim())) return Buffer.from(text.trim(), 'hex')
  throw new BackupFault('UNUSABLE', `${keyFile} is no key: it must hold 64 hexadecimal digits`)
}

function digestOfSnapshot(snapshot: Snapshot): string {
  return createHash('sha256').update(JSON.stringify(snapshot)).digest('hex')
}

/** On a read-only file system a recursive mkdir reports an existing directory as missing. */
async function makeWritable(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: directoryMode })
    await access(path, constants.W_OK | constants.X_OK)
  } catch (error) {
    const { message } = error as Error
    const hint = 'its user must be allowed to, and a hardened unit needs the path in ReadWritePaths='
    throw new BackupFault('UNUSABLE', `the service cannot write to ${path} (${hint}): ${message}`, {
      cause: error,
    })
  }
}
