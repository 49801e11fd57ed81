/** Bytes on the disk: when they are deleted and checked, which memory and space they take. */
import { bytes, choice, integer, pattern, type Setting, type ValuesOf } from '../setting-kinds.ts'

const plainBytes = bytes({ fallback: '', meaning: '' })

export const storageSettings = {
  HOLDFAST_SERVER_NAME: pattern(/^[a-z0-9][a-z0-9-]{0,62}$/, 'a name of letters, digits and -', {
    fallback: 'store1',
    meaning: 'Name of this storage server in the `servers` of a file.',
  }),
  HOLDFAST_GC_GRACE_SECONDS: integer({
    fallback: '3600',
    min: 0,
    max: 30 * 86_400,
    meaning:
      'How long bytes stay on disk after their last reference was removed, seconds. Must be longer than any upload takes. Bytes of the last ten minutes always stay.',
  }),
  HOLDFAST_COLLECT_SECONDS: integer({
    fallback: '600',
    min: 1,
    max: 7 * 86_400,
    meaning: 'How often the service looks for unreferenced bytes, seconds.',
  }),
  HOLDFAST_RECONCILE_SECONDS: integer({
    fallback: '86400',
    min: 1,
    max: 30 * 86_400,
    meaning:
      'How often the references of files are compared with all accounts, seconds. While deleted bytes wait for it, the comparison runs every HOLDFAST_COLLECT_SECONDS.',
  }),
  HOLDFAST_RECONCILE_RATE: integer({
    fallback: '100',
    min: 1,
    max: 100_000,
    meaning:
      'Requests per second of this comparison, in a cluster per region: one per account, and one more per thousand of its files. A search of operators in all accounts sends as many.',
  }),
  HOLDFAST_SCRUB_RATE: bytes({
    fallback: '20MiB',
    meaning:
      'Bytes per second that are read from the disk to find damaged files; 0 turns it off. 20 MiB is a tenth of the rate of a hard disk: 10 TB in six days.',
  }),
  HOLDFAST_SCRUB_SECONDS: integer({
    fallback: '86400',
    min: 1,
    max: 90 * 86_400,
    meaning: 'Pause between two passes of this check over all files, seconds. Sectors decay within months.',
  }),
  HOLDFAST_UPLOAD_MEMORY: bytes({
    fallback: '32MiB',
    min: 8 * 1024 ** 2,
    meaning: 'Memory that all running uploads share. More helps when many large uploads run at a time.',
  }),
  HOLDFAST_CACHE_MEMORY: bytes({
    fallback: '32MiB',
    meaning: 'Memory for the bytes of frequently read small files.',
  }),
  HOLDFAST_CATALOGUE: choice(['auto', 'rocksdb', 'level'], {
    fallback: 'auto',
    meaning:
      'Library of the store’s index. `auto`: RocksDB where it exists for the system, else LevelDB. A change rebuilds the list at the start, by reading all stored bytes’ headers.',
  }),
  HOLDFAST_RESERVE: {
    fallback: 'auto',
    meaning:
      'Disk space kept free, bytes: below it uploads are refused. `auto`: 3 GiB, or 5 % of a smaller disk.',
    form: `${plainBytes.form}, or auto`,
    secret: false,
    parse: (value) => (value === 'auto' ? undefined : plainBytes.parse(value)),
  } as Setting<number | undefined>,
}

export interface StorageConfig {
  serverName: string
  collect: { graceMs: number; everyMs: number }
  reconcile: { everyMs: number; wantedMs: number; perSecond: number }
  /** 0 bytes a second: no scrubbing. */
  scrub: { bytesPerSecond: number; restMs: number }
  store: {
    uploadMemoryBytes: number
    cacheBytes: number
    /** Undefined: by the system. */
    catalogue: 'rocksdb' | 'level' | undefined
    /** Undefined: by the size of the disk. */
    reserveBytes: number | undefined
  }
}

export function storageConfig(values: ValuesOf<typeof storageSettings>): StorageConfig {
  return {
    serverName: values.HOLDFAST_SERVER_NAME,
    collect: {
      graceMs: values.HOLDFAST_GC_GRACE_SECONDS * 1000,
      everyMs: values.HOLDFAST_COLLECT_SECONDS * 1000,
    },
    reconcile: {
      everyMs: values.HOLDFAST_RECONCILE_SECONDS * 1000,
      wantedMs: values.HOLDFAST_COLLECT_SECONDS * 1000,
      perSecond: values.HOLDFAST_RECONCILE_RATE,
    },
    scrub: {
      bytesPerSecond: values.HOLDFAST_SCRUB_RATE,
      restMs: values.HOLDFAST_SCRUB_SECONDS * 1000,
    },
    store: {
      uploadMemoryBytes: values.HOLDFAST_UPLOAD_MEMORY,
      cacheBytes: values.HOLDFAST_CACHE_MEMORY,
      catalogue: values.HOLDFAST_CATALOGUE === 'auto' ? undefined : values.HOLDFAST_CATALOGUE,
      reserveBytes: values.HOLDFAST_RESERVE,
    },
  }
}
