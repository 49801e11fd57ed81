import { hash, randomBytes } from 'node:crypto'
import { open, readFile, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { LookupStore } from '@holdfast/journal'
import { absent, hex, isUnreadable, Keyring, syncDirectory } from '@holdfast/kernel'
import { StartFault } from './start-fault.ts'

/**
 * Every id, token and code depends on it: made at the first start, never changed, part of every
 * backup.
 */
export const masterRow = 'setting/master'
const masterBytes = 32

export async function openKeyring(lookups: LookupStore): Promise<Keyring> {
  const known = await lookups.get(masterRow)
  return new Keyring(known ?? (await lookups.claim(masterRow, randomBytes(masterBytes))))
}

export interface KeptKeyringOptions {
  lookups: LookupStore
  /** The file of the copy; private. */
  copy: string
  /** Whether no account can have been made yet. Called when neither row nor copy is there. */
  isNew: () => Promise<boolean>
  /** The copy cannot be written: the service works, and has only the row. */
  onNoCopy: (error: Error) => void
}

/**
 * As `openKeyring`, for a store that may lose rows with a part of its disk: a file beside it has
 * the secret, too, from the first start on. The row decides; a row that is lost is made again.
 *
 * @throws StartFault DATA_UNUSABLE: both are lost, so that no token and no code would be valid
 */
export async function openKeptKeyring(options: KeptKeyringOptions): Promise<Keyring> {
  const { lookups, copy, onNoCopy } = options
  const kept = await readCopy(copy)
  const known = await storedMaster(lookups)
  const master = known ?? kept ?? (await newMaster(options))
  if (kept === undefined || Buffer.compare(kept, master) !== 0) await writeCopy(copy, master).catch(onNoCopy)
  if (known === undefined) await lookups.write([{ put: masterRow, value: master }])
  return new Keyring(master)
}

/** Undefined: it is missing or lost. */
async function storedMaster(lookups: LookupStore): Promise<Uint8Array | undefined> {
  try {
    return await lookups.get(masterRow)
  } catch (error) {
    if ((error as { code?: string }).code === 'CORRUPT') return undefined
    throw error
  }
}

async function newMaster({ isNew, copy }: KeptKeyringOptions): Promise<Uint8Array> {
  if (await isNew()) return randomBytes(masterBytes)
  throw new StartFault(
    'DATA_UNUSABLE',
    `the master key is lost: the metadata has accounts, but neither the row ${masterRow} nor ${copy}. With another key no token, link or code would be valid. Put the file of an earlier copy of the data directory there, or restore a backup`,
  )
}

/** `1 <64 hexadecimal digits> <16 digits of their SHA-256>`. Undefined: missing or damaged. */
async function readCopy(path: string): Promise<Uint8Array | undefined> {
  const text = await readFile(path, 'latin1').catch((error: NodeJS.ErrnoException) =>
    isUnreadable(error) ? undefined : absent(error),
  )
  const [, digits = '', sum] = /^1 ([0-9a-f]{64}) ([0-9a-f]{16})\n$/.exec(text ?? '') ?? []
  return digits !== '' && sumOf(digits) === sum ? Buffer.from(digits, 'hex') : undefined
}

async function writeCopy(path: string, master: Uint8Array): Promise<void> {
  const digits = hex(master)
  {
    await using file = await open(`${path}.new`, 'w', 0o600)
    await file.writeFile(`1 ${digits} ${sumOf(digits)}\n`)
    await file.sync()
  }
  await rename(`${path}.new`, path)
  await syncDirectory(dirname(path))
}

function sumOf(digits: string): string {
  return hash('sha256', digits).slice(0, 16)
}
