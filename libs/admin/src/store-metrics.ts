import type { BlobStore, BlobStoreUsage } from '@holdfast/blob-store'
import { Gauge, type Registry } from 'prom-client'

const shown = [
  ['holdfast_store_live_bytes', 'Bytes of live blobs, as stored.', 'liveBytes'],
  ['holdfast_store_blobs', 'Blobs in the store.', 'blobs'],
  ['holdfast_store_disk_bytes', 'Bytes the store occupies on disk.', 'diskBytes'],
  ['holdfast_store_free_bytes', 'Bytes that can still be written.', 'freeBytes'],
  ['holdfast_store_staged_bytes', 'Bytes of uploads that are not committed.', 'stagedBytes'],
  ['holdfast_store_open_stages', 'Uploads under way.', 'openStages'],
  ['holdfast_store_writable', '1 when uploads are taken.', 'writable'],
] as const

/** @param isWritable asked when somebody reads the figure */
export function metadataMetrics(registry: Registry, isWritable: () => boolean): void {
  new Gauge({
    name: 'holdfast_metadata_writable',
    help: '1 when the metadata store takes writes.',
    registers: [registry],
    collect() {
      this.set(isWritable() ? 1 : 0)
    },
  })
}

/** What a blob store holds and has left, read when somebody asks, once for all figures. */
export function storeMetrics(registry: Registry, blobs: BlobStore): void {
  let asked: Promise<BlobStoreUsage> | undefined
  const usage = () => {
    asked ??= blobs.usage().finally(() => {
      asked = undefined
    })
    return asked
  }
  for (const [name, help, field] of shown) {
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        this.set(Number((await usage())[field]))
      },
    })
  }
}
