/** Stores on a machine whose disk and catalogue fail as a test says. */
import { randomBytes } from 'node:crypto'
import type { BlobInfo } from '@holdfast/blob-store'
import { put } from '@holdfast/blob-store/testing'
import { InlineHashing } from '../../src/hashing/hashing.ts'
import type { ChunkStoreOptions } from '../../src/index.ts'
import { ChunkStore } from '../../src/index.ts'
import { crashOptions } from './crash-history.ts'
import { CrashMachine, type DiskState, seeded } from './crash-machine.ts'

export const MiB = 1024 * 1024

export const eio = Object.assign(new Error('input/output error'), { code: 'EIO' })

export function machineOn(state?: DiskState): CrashMachine {
  return new CrashMachine(seeded(7), state)
}

export function openWith(
  machine: CrashMachine,
  options: Partial<ChunkStoreOptions> = {},
  { background = false }: { background?: boolean } = {},
): Promise<ChunkStore> {
  return ChunkStore.open(
    { ...crashOptions, ...options },
    {
      disk: machine.disk,
      catalogue: async () => machine.catalogue,
      hashing: (memory) => new InlineHashing(memory),
      background,
    },
  )
}

/** Blobs of 1.2 MiB: four are more than an extent. */
export async function fill(store: ChunkStore, blobs: number): Promise<BlobInfo[]> {
  const made: BlobInfo[] = []
  for (let n = 0; n < blobs; n++) made.push(await put(store, randomBytes(1.2 * MiB), { pinMs: 0 }))
  return made
}

/** Flips one bit of the first place with these bytes on the disk. */
export function flipOnDisk(machine: CrashMachine, bytes: Buffer, at = 0): void {
  for (const path of machine.paths()) {
    const file = machine.file(path)
    const found = file.indexOf(bytes.subarray(at, at + 64))
    if (found < 0) continue
    file[found + 32] = (file[found + 32] ?? 0) ^ 0x10
    return
  }
  throw new Error('the bytes are not on the disk')
}
