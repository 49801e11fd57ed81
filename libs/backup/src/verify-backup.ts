/**
 * Reads everything, and names what is damaged or missing with the accounts that use it. It works
 * for a backup and for a live store.
 */
import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  type BlobStore,
  copyKey,
  nameOfCopy,
} from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'
import type { BackupDirectory } from './backup-directory.ts'
import { checkBytes, forEachOf, namedCopy } from './copies.ts'
import { BackupFault } from './errors.ts'
import { copyOfRow, readSegment, readSegments, type SegmentRow } from './segments.ts'
import type { Snapshot } from './snapshot.ts'

const copiesAtOnce = 8
/** Entries of a report. */
const brokenMax = 1_000
/** Accounts that are asked for a report, each of them once for each of its broken copies. */
const questionsMax = 2_000

/** A row that says that an account uses a copy. */
export interface Reference {
  /** `<id>/<incarnation>` in hex. */
  copy: string
  account: string
}

export interface BrokenCopy {
  copy: string
  /** The first digest of the id: clients see it. */
  md5: string
  why: 'damaged' | 'missing'
  /** The accounts that use it. */
  accounts: string[]
}

export interface VerifyResult {
  copies: number
  bytes: number
  references: number
  /** Damaged copies, also those that `broken` has no room for. */
  damaged: number
  missing: number
  broken: BrokenCopy[]
}

/** The files for which an account uses a broken copy, or why it could not be asked. */
export type Use = object | { account: string; unread: string }

export interface NamedResult extends Omit<VerifyResult, 'broken'> {
  broken: (Omit<BrokenCopy, 'accounts'> & { usedBy: Use[]; accounts: number })[]
}

/** Asks accounts which of their files are broken, a bounded number of times. */
export async function askUses(
  verified: VerifyResult,
  usesOf: (account: string, copy: BlobName) => Promise<object>,
): Promise<NamedResult> {
  const broken: NamedResult['broken'] = []
  let left = questionsMax
  for (const { accounts, ...one } of verified.broken) {
    const usedBy: Use[] = []
    for (const account of accounts.slice(0, left)) {
      left--
      usedBy.push(
        await usesOf(account, namedCopy(one.copy)).catch((error: Error) => ({
          account,
          unread: error.message,
        })),
      )
    }
    broken.push({ ...one, usedBy, accounts: accounts.length })
  }
  return { ...verified, broken }
}

/**
 * What is damaged is set aside: the next backup of the service writes it again.
 * @throws BackupFault `DAMAGED` when a segment of the snapshot is damaged.
 */
export async function verifyBackup(
  directory: BackupDirectory,
  snapshot: Snapshot,
  referenceOf: (key: Uint8Array) => Reference | undefined,
): Promise<VerifyResult> {
  for (const segment of [...snapshot.copies, ...snapshot.rows])
    await settingAside(directory, segment, readSegment(directory, segment))
  return verify({
    copies: mapEach(readSegments(directory, snapshot.copies), copyOfRow),
    references: referencesIn(readSegments(directory, snapshot.rows), referenceOf),
    check: ({ id }) => settingAside(directory, hex(id), checkBytes(id, directory.read(hex(id)))),
  })
}

async function settingAside(
  directory: BackupDirectory,
  object: string,
  check: Promise<unknown>,
): Promise<void> {
  try {
    await check
  } catch (error) {
    if (error instanceof BackupFault && isDamaged(error)) await directory.setAside(object)
    throw error
  }
}

/**
 * Whether the object is damaged. An object is not damaged if it could not be opened for another
 * reason, such as missing descriptors or rights.
 */
function isDamaged({ code, cause }: BackupFault): boolean {
  const { syscall, code: reason } = (cause ?? {}) as NodeJS.ErrnoException
  return code === 'DAMAGED' && (syscall === undefined || reason === 'EIO')
}

/** The caller keeps copies from being deleted meanwhile. */
export async function verifyLive(
  blobs: Pick<BlobStore, 'inventory' | 'read' | 'stat'>,
  rows: () => AsyncIterable<SegmentRow>,
  referenceOf: (key: Uint8Array) => Reference | undefined,
  { signal, onCopy }: { signal: AbortSignal; onCopy: (bytes: number) => void },
): Promise<VerifyResult> {
  return verify({
    copies: blobs.inventory(),
    references: referencesIn(rows(), referenceOf),
    cameLater: async (copy) => (await blobs.stat(namedCopy(copy))) !== undefined,
    check: async (info) => {
      signal.throwIfAborted()
      await checkBytes(info.id, blobs.read(info, { start: 0, end: info.size }, { signal }))
      onCopy(info.size)
    },
  })
}

async function verify({
  copies,
  references,
  check,
  cameLater = async () => false,
}: {
  copies: AsyncIterable<BlobInfo>
  references: AsyncIterable<Reference>
  check: (info: BlobInfo) => Promise<void>
  /** Whether a copy that the inventory did not have is there. */
  cameLater?: (copy: string) => Promise<boolean>
}): Promise<VerifyResult> {
  const verified: VerifyResult = { copies: 0, bytes: 0, references: 0, damaged: 0, missing: 0, broken: [] }
  const whole = new Set<string>()
  const broken = new Map<string, BrokenCopy>()
  const note = (copy: string, why: BrokenCopy['why']) => {
    const one: BrokenCopy = broken.get(copy) ?? { copy, md5: copy.slice(0, 32), why, accounts: [] }
    if (!broken.has(copy)) verified[why]++
    broken.set(copy, one)
    return one
  }
  await forEachOf(copies, copiesAtOnce, async (info) => {
    const copy = nameOfCopy(info)
    verified.copies++
    verified.bytes += info.size
    try {
      await check(info)
      whole.add(copyKey(info))
    } catch (error) {
      const isOfCopy = error instanceof BackupFault ? error.code === 'DAMAGED' : error instanceof BlobFault
      if (!isOfCopy) throw error
      note(copy, 'damaged')
    }
  })
  for await (const { copy, account } of references) {
    verified.references++
    if (whole.has(copyKey(namedCopy(copy)))) continue
    if (broken.has(copy) || !(await cameLater(copy))) note(copy, 'missing').accounts.push(account)
  }
  verified.broken = [...broken.values()].slice(0, brokenMax)
  return verified
}

async function* referencesIn(
  rows: AsyncIterable<SegmentRow>,
  referenceOf: (key: Uint8Array) => Reference | undefined,
): AsyncGenerator<Reference> {
  for await (const [key] of rows) {
    const reference = referenceOf(key)
    if (reference !== undefined) yield reference
  }
}

async function* mapEach<From, To>(
  items: AsyncIterable<From> | Iterable<From>,
  to: (item: From) => To,
): AsyncGenerator<To> {
  for await (const item of items) yield to(item)
}
