/**
 * A file system of a few MiB, to be filled to its last byte: a tmpfs in a separate mount namespace,
 * so that it ends with its process in every case. A test file calls `onSmallDisk` and runs once
 * more in there.
 */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

const variable = 'HOLDFAST_TEST_SMALL_DISK'
const MiB = 1024 * 1024
const pageBytes = 4096

/**
 * The directory of the small disk, or undefined in the first run of the file, which only waits for
 * the second.
 * @param file the test's `import.meta.url`
 */
export async function onSmallDisk(
  t: Test,
  { file, bytes }: { file: string; bytes: number },
): Promise<string | undefined> {
  const directory = process.env[variable]
  if (directory !== undefined) return directory
  const unshare = [...(process.getuid?.() === 0 ? [] : ['--map-root-user']), '--mount']
  const mounts = 'mount -t tmpfs -o size="$0" small "$1" && shift && exec "$@"'
  const inside = (path: string, command: string[]) => [
    ...unshare,
    'sh',
    '-c',
    mounts,
    `${bytes}`,
    path,
    ...command,
  ]
  const path = mkdtempSync(join(tmpdir(), 'holdfast-small-disk-'))
  t.teardown(() => rmSync(path, { recursive: true, force: true }))
  if (spawnSync('unshare', inside(path, ['true'])).status !== 0) {
    t.plan(0, 'this machine does not permit mounting a file system')
    return undefined
  }
  const env = { ...process.env, [variable]: path }
  const command = inside(path, [process.execPath, ...process.execArgv, fileURLToPath(file)])
  await t.spawn('unshare', command, { env }, 'on a disk of its own')
  return undefined
}

/** Uses space, as a log file or another service would. */
export class Filler {
  readonly #path: string
  #file: FileHandle | undefined
  #bytes = 0

  constructor(directory: string) {
    this.#path = join(directory, 'filler')
  }

  /** Uses all that is left, to the last byte. */
  async fill(): Promise<void> {
    this.#file ??= await open(this.#path, 'a')
    do {
      for (const block of [MiB, pageBytes]) while (await this.#grow(block));
      // Others may release MiBs meanwhile: not by single bytes.
    } while (await this.#growsByBytes())
  }

  /** Fills the page up to its end. @returns false when there is no space for it. */
  async #growsByBytes(): Promise<boolean> {
    for (let left = pageBytes; left > 0; left--) if (!(await this.#grow(1))) return false
    return true
  }

  /** @returns false when there is less space. */
  async #grow(bytes: number): Promise<boolean> {
    try {
      const { bytesWritten } = (await this.#file?.write(
        Buffer.alloc(bytes, 0x55),
        0,
        bytes,
        this.#bytes,
      )) ?? {
        bytesWritten: 0,
      }
      this.#bytes += bytesWritten
      return bytesWritten === bytes
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return false
      throw error
    }
  }

  /** Releases everything. */
  async empty(): Promise<void> {
    await this.#file?.close()
    this.#file = undefined
    this.#bytes = 0
    await rm(this.#path, { force: true })
  }
}
