/**
 * A separate disk for a storage node, small enough to be filled to the last byte. Needs permission
 * to mount.
 */
import { execFileSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'

const ballast = 'ballast of the test'

export class SmallDisk {
  readonly #path: string

  /** Undefined without permission to mount. */
  static mount(path: string, { mebibytes }: { mebibytes: number }): SmallDisk | undefined {
    mkdirSync(path, { recursive: true })
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes}m,mode=700`, 'holdfast-test', path], {
        stdio: 'ignore',
      })
    } catch {
      return undefined
    }
    return new SmallDisk(path)
  }

  private constructor(path: string) {
    this.#path = path
  }

  /** Until the system reports ENOSPC for a single byte. */
  fill(): void {
    const file = openSync(join(this.#path, ballast), 'a')
    try {
      for (let bytes = 1024 * 1024; bytes >= 1; bytes = Math.floor(bytes / 16)) fillWith(file, bytes)
    } finally {
      closeSync(file)
    }
  }

  free(): void {
    rmSync(join(this.#path, ballast), { force: true })
  }

  unmount(): void {
    // Hidden at once; removed when the last process has closed its files.
    execFileSync('umount', ['-l', this.#path])
  }
}

function fillWith(file: number, bytes: number): void {
  const part = Buffer.alloc(bytes)
  try {
    while (writeSync(file, part) === bytes);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
}
