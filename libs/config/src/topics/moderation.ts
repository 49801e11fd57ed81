/** What is kept about transfers, for the operator. */
import { integer, type ValuesOf } from '../setting-kinds.ts'

const daysMax = 365

export const moderationSettings = {
  HOLDFAST_UPLOAD_RECORD_DAYS: integer({
    fallback: '7',
    min: 0,
    max: daysMax,
    meaning:
      'Days for which the service keeps who uploaded what: time, address, account, content, name, hashes. 0: nothing is kept.',
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
      'Uploads, and as many downloads, that a process keeps of an hour, some 400 bytes each; the rest is counted (`holdfast_transfers_unrecorded_total`).',
  }),
}

export interface ModerationConfig {
  transferLog: { days: { upload: number; download: number }; rowsPerHourMax: number }
}

export function moderationConfig(values: ValuesOf<typeof moderationSettings>): ModerationConfig {
  return {
    transferLog: {
      days: {
        upload: values.HOLDFAST_UPLOAD_RECORD_DAYS,
        download: values.HOLDFAST_DOWNLOAD_RECORD_DAYS,
      },
      rowsPerHourMax: values.HOLDFAST_RECORD_ROWS_PER_HOUR,
    },
  }
}
