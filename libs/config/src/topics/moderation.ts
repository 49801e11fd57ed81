/** The record of transfers, and the scanner of new content. */
import { isAbsolute } from 'node:path'
import { type Endpoint, endpoints } from '../network-kinds.ts'
import { bytes, choice, integer, type Setting, seconds, type ValuesOf } from '../setting-kinds.ts'

const daysMax = 365
/** Bytes are pinned for 10 min, in which they are scanned and named. */
const scanSecondsMax = 300

/** What sees new content before others may read it. */
export type ScannerChoice = { program: string } | { path: string } | Endpoint

const scannerForm = 'like clamd:/path, clamd:host:port or program:/path'

const scanner: Setting<ScannerChoice | undefined> = {
  fallback: '',
  meaning:
    'Sees new content before others may read it: `clamd:/run/clamav/clamd.ctl`, `clamd:127.0.0.1:3310`, or `program:/path` (content on its input; exit code 0: clean, 1: found). Empty: nothing is scanned.',
  form: scannerForm,
  secret: false,
  parse: (value) => {
    if (value === '') return undefined
    const [, kind, at = ''] = /^(clamd|program):(.+)$/.exec(value) ?? []
    if (isAbsolute(at)) return kind === 'program' ? { program: at } : { path: at }
    const [endpoint, more] = kind === 'clamd' ? endpoints(at) : []
    if (endpoint === undefined || more !== undefined)
      throw new Error(`is "${value}", but must be ${scannerForm}`)
    return endpoint
  },
}

export const moderationSettings = {
  HOLDFAST_UPLOAD_RECORD_DAYS: integer({
    fallback: '7',
    min: 0,
    max: daysMax,
    meaning:
      'Days for which the service records uploads: time, address, account, content, name, hashes. 0: nothing is kept.',
  }),
  HOLDFAST_DOWNLOAD_RECORD_DAYS: integer({
    fallback: '0',
    min: 0,
    max: daysMax,
    meaning: 'The same for downloads. 0: nothing is kept.',
  }),
  HOLDFAST_RECORD_ROWS_PER_HOUR: integer({
    fallback: '20000',
    min: 100,
    max: 10_000_000,
    meaning:
      'Uploads, and as many downloads, that a process records per hour, some 400 bytes each, the last quarter for networks with fewer than 100; further ones are only counted (`holdfast_transfers_unrecorded_total`).',
  }),
  HOLDFAST_SCANNER: scanner,
  HOLDFAST_SCAN_FAILURE: choice(['refuse', 'accept'], {
    fallback: 'refuse',
    meaning:
      'Where the scanner is down, late or fails: uploads are refused for now (503), or accepted unscanned (each is a line of the log).',
  }),
  HOLDFAST_SCAN_SECONDS: seconds({
    fallback: '60',
    min: 0.1,
    max: scanSecondsMax,
    meaning: 'The longest scan, with the wait for its turn.',
  }),
  HOLDFAST_SCAN_MAX_BYTES: bytes({
    fallback: '100MiB',
    min: 1,
    meaning:
      'Larger content is stored without a scan; HOLDFAST_MAX_FILE_BYTES refuses it. For clamd at most its StreamMaxLength.',
  }),
  HOLDFAST_SCANS_AT_ONCE: integer({
    fallback: '4',
    min: 1,
    max: 64,
    meaning: 'Scans that a process runs at a time; others wait. Fewer than the threads of clamd.',
  }),
}

export interface ModerationConfig {
  scanning: {
    scanner: ScannerChoice | undefined
    onFailure: 'refuse' | 'accept'
    deadlineMs: number
    bytesMax: number
    atOnceMax: number
  }
  transferLog: { days: { upload: number; download: number }; rowsPerHourMax: number }
}

export function moderationConfig(values: ValuesOf<typeof moderationSettings>): ModerationConfig {
  return {
    scanning: {
      scanner: values.HOLDFAST_SCANNER,
      onFailure: values.HOLDFAST_SCAN_FAILURE,
      deadlineMs: values.HOLDFAST_SCAN_SECONDS * 1000,
      bytesMax: values.HOLDFAST_SCAN_MAX_BYTES,
      atOnceMax: values.HOLDFAST_SCANS_AT_ONCE,
    },
    transferLog: {
      days: {
        upload: values.HOLDFAST_UPLOAD_RECORD_DAYS,
        download: values.HOLDFAST_DOWNLOAD_RECORD_DAYS,
      },
      rowsPerHourMax: values.HOLDFAST_RECORD_ROWS_PER_HOUR,
    },
  }
}
