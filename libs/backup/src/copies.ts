/** Bytes of copies: compared with their id, a few at a time. */
import { BlobDigester, type BlobName } from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'
import { BackupFault } from './errors.ts'

/** Parses the name of a copy: the inverse of `nameOfCopy`. */
export function namedCopy(copy: string): BlobName {
  const [id = '', incarnation = ''] = copy.split('/')
  return {
    id: Buffer.from(id, 'hex'),
    incarnation: Buffer.from(incarnation, 'hex'),
    placementGroup: undefined,
  }
}

/** @throws BackupFault `DAMAGED` at the end when the bytes are not those of the id. */
export async function checkBytes(id: Uint8Array, bytes: AsyncIterable<Uint8Array>): Promise<void> {
  const digester = new BlobDigester()
  for await (const piece of bytes) digester.update(piece)
  if (Buffer.compare(digester.digest().id, id) !== 0)
    throw new BackupFault('DAMAGED', `${hex(id)} has other bytes than its digest says`)
}

/** Runs `work` for each item, at most `atOnce` at a time. The first fault ends it. */
export async function forEachOf<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const source = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]()
  let failed = false
  const worker = async () => {
    while (!failed) {
      const { done, value } = await source.next()
      if (done === true) return
      await work(value).catch((error) => {
        failed = true
        throw error
      })
    }
  }
  const ended = await Promise.allSettled(Array.from({ length: atOnce }, worker))
  await source.return?.()
  for (const one of ended) if (one.status === 'rejected') throw one.reason
}
