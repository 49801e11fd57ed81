import {
  type BlobStore,
  type BlobStoreUsage,
  quarantineReasons,
  type ReportsHealth,
  reportsHealth,
} from '@holdfast/blob-store'
import { Gauge, type Registry } from 'prom-client'
import { readMetrics } from './read-metrics.ts'

const shown = [
  ['holdfast_store_live_bytes', 'Bytes of live blobs, as stored.', 'liveBytes'],
  ['holdfast_store_blobs', 'Blobs in the store.', 'blobs'],
  ['holdfast_store_disk_bytes', 'Bytes the store occupies on disk.', 'diskBytes'],
  ['holdfast_store_free_bytes', 'Bytes that can still be written.', 'freeBytes'],
  ['holdfast_store_staged_bytes', 'Bytes of uploads that are not committed.', 'stagedBytes'],
  ['holdfast_store_open_stages', 'Running uploads.', 'openStages'],
  ['holdfast_store_writable', '1 when uploads are accepted.', 'writable'],
] as const

/** The file system of a store, as measured for `storeMetrics`. */
export function diskMetrics(
  registry: Registry,
  store: { readonly disk: { totalBytes: number; freeBytes: number; reserveBytes: number } },
): void {
  for (const [name, help, figure] of [
    ['holdfast_disk_size_bytes', 'Size of the file system that the store is on.', 'totalBytes'],
    ['holdfast_disk_free_bytes', 'Free bytes of that file system, with the reserve.', 'freeBytes'],
    [
      'holdfast_disk_reserve_bytes',
      'Space that uploads leave free on it (HOLDFAST_RESERVE); below half of that running uploads end, too.',
      'reserveBytes',
    ],
  ] as const)
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(store.disk[figure])
      },
    })
}

/** Both are called at each scrape. */
export function metadataMetrics(
  registry: Registry,
  {
    isWritable,
    lostBatches,
    unauditedBatches,
  }: { isWritable: () => boolean; lostBatches: () => number; unauditedBatches: () => number },
): void {
  new Gauge({
    name: 'holdfast_metadata_lost_batches',
    help: 'Writes that the metadata store has lost since it was made, found at its starts: rows of accounts may be missing. Above 0 nothing is collected.',
    registers: [registry],
    collect() {
      this.set(lostBatches())
    },
  })
  readMetrics(registry).counter(
    'holdfast_metadata_unaudited_batches_total',
    'Writes of the metadata store that its commit audit has no entry of, as that could not be written. They are on disk, but a later loss of them would not be noticed.',
    unauditedBatches,
  )
  new Gauge({
    name: 'holdfast_metadata_writable',
    help: '1 when the metadata store accepts writes.',
    registers: [registry],
    collect() {
      this.set(isWritable() ? 1 : 0)
    },
  })
}

/** Used and free space of a blob store, read once for all figures at each scrape. */
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
  if (reportsHealth(blobs)) healthMetrics(registry, blobs)
}

function healthMetrics(registry: Registry, store: ReportsHealth): void {
  const registers = [registry]
  new Gauge({
    name: 'holdfast_store_quarantined_extents',
    help: 'Files of extents that are served as far as they can be read, and never used again.',
    labelNames: ['reason'],
    registers,
    collect() {
      const { quarantined } = store.health
      for (const reason of quarantineReasons)
        this.set({ reason }, quarantined.filter((file) => file.reason === reason).length)
    },
  })
  readMetrics(registry).counter(
    'holdfast_store_extent_failures_total',
    'Writes and syncs of extents that failed. Nothing more is written to such an extent: it is read back, checked and moved.',
    () => store.health.extentFailures,
  )
  new Gauge({
    name: 'holdfast_store_gap',
    help: '1 while there may be blobs that the store does not know of; nothing is collected meanwhile.',
    registers,
    collect() {
      this.set(store.health.gap === undefined ? 0 : 1)
    },
  })
  new Gauge({
    name: 'holdfast_store_failed',
    help: '1 when the store works again only after a restart.',
    registers,
    collect() {
      this.set(store.health.failure === undefined ? 0 : 1)
    },
  })
  new Gauge({
    name: 'holdfast_store_recovering',
    help: '1 while the catalogue accepts no changes and is retried.',
    registers,
    collect() {
      this.set(Number(store.health.recovering))
    },
  })
  new Gauge({
    name: 'holdfast_store_direct_sends',
    help: '1 when bytes in the page cache go to sockets without being copied (splice, cachestat); 0 where the system does not allow it.',
    registers,
    collect() {
      this.set(Number(store.health.sendsDirectly))
    },
  })
}

/** The content and the state of a store, as plain JSON for the operator. */
export async function storeStatus(store: BlobStore): Promise<object> {
  const usage = await store.usage()
  if (!reportsHealth(store)) return usage
  const { failure, gap, ...health } = store.health
  return {
    ...usage,
    ...health,
    ...(failure === undefined ? {} : { failure: failure.message }),
    ...(gap === undefined ? {} : { gap: `${gap}: nothing is collected` }),
  }
}
