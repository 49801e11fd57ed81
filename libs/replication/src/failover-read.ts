/** Bytes of a blob from any holder: when one fails, the next continues at the same byte. */
import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  type WholeBytes,
  type WholeReads,
} from '@holdfast/blob-store'

/** The methods of a holder that a read needs. */
export interface ReadSource {
  read(
    blob: BlobName,
    range: { start: number; end: number },
    options?: { signal?: AbortSignal },
  ): AsyncIterable<Uint8Array>
}

export interface Holder {
  id: string
  node: ReadSource
}

export interface FailoverOptions {
  signal?: AbortSignal | undefined
  /** Called for each holder that failed. */
  failed?: (holder: string, fault: BlobFault) => void
}

/**
 * Each holder is tried once, in the given order. No byte is yielded twice.
 * @throws BlobFault the most significant one: unreachable before corrupt before not found, because
 *   only the last means that no holder has it.
 */
export async function* readFromAny(
  holders: Iterable<Holder> | AsyncIterable<Holder>,
  blob: BlobName | BlobInfo,
  range: { start: number; end: number },
  { signal, failed }: FailoverOptions = {},
): AsyncGenerator<Uint8Array> {
  const faults: BlobFault[] = []
  let at = range.start
  for await (const { id, node } of holders) {
    try {
      for await (const bytes of node.read(blob, { start: at, end: range.end }, signal && { signal })) {
        at += bytes.length
        yield bytes
      }
      if (at === range.end) return
      throw new BlobFault('UNAVAILABLE', `${id} sent ${range.end - at} bytes too few`)
    } catch (error) {
      const fault = retryable(error)
      if (fault === undefined) throw error
      failed?.(id, fault)
      faults.push(fault)
      if (at > range.end) throw fault
    }
  }
  throw worstOf(faults) ?? new BlobFault('UNAVAILABLE', 'no holder of the blob is known')
}

/**
 * Bytes in one piece from the first of these that has them in memory. Undefined when it has not, or
 * fails: `read` then continues elsewhere and reports the fault.
 */
export async function readWholeFrom(
  node: ReadSource | undefined,
  blob: BlobName,
  range: { start: number; end: number },
): Promise<WholeBytes | undefined> {
  if (node === undefined || !('readWhole' in node)) return undefined
  try {
    return await (node as ReadSource & WholeReads).readWhole(blob, range)
  } catch (error) {
    if (retryable(error) === undefined) throw error
    return undefined
  }
}

/** Another holder may succeed. A cancelled or invalid request fails as it is. */
function retryable(error: unknown): BlobFault | undefined {
  if (!(error instanceof BlobFault)) return undefined
  return error.code === 'CANCELLED' || error.code === 'INVALID' ? undefined : error
}

/** The fault that leaves most open: a timeout is not an absence. */
export function worstOf(faults: readonly BlobFault[]): BlobFault | undefined {
  const rank = (fault: BlobFault) => {
    if (fault.code === 'NOT_FOUND') return 0
    return fault.code === 'CORRUPT' ? 1 : 2
  }
  return [...faults].sort((one, other) => rank(other) - rank(one))[0]
}
