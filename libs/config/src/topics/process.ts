/** Where a process keeps its files, which region it is in, how it logs and ends. */
import { resolve } from 'node:path'
import { type RegionCode, regionCodes } from '@holdfast/kernel'
import { choice, seconds, text, type ValuesOf } from '../setting-kinds.ts'

export const processSettings = {
  HOLDFAST_DATA_DIR: text({
    fallback: './data',
    meaning: 'Directory that holds everything; relative to where the process starts. One process at a time.',
  }),
  HOLDFAST_REGION: choice(regionCodes, {
    fallback: 'eu-par',
    meaning:
      'Home region of accounts that are made here. It is part of their ids, so it never changes for them.',
  }),
  HOLDFAST_DRAIN_SECONDS: seconds({
    fallback: '25',
    min: 0,
    max: 3600,
    meaning:
      'How long running requests may take after SIGTERM; less than the 30 s after which orchestrators kill.',
  }),
  HOLDFAST_LOG_LEVEL: choice(['debug', 'info', 'warn', 'error', 'silent'], {
    fallback: 'warn',
    meaning: 'Least severe log line that is written (JSON lines on stderr); debug shows every request.',
  }),
}

export interface ProcessConfig {
  dataDir: string
  region: RegionCode
  drainMs: number
  logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
}

export function processConfig(values: ValuesOf<typeof processSettings>): ProcessConfig {
  return {
    dataDir: resolve(values.HOLDFAST_DATA_DIR),
    region: values.HOLDFAST_REGION,
    drainMs: values.HOLDFAST_DRAIN_SECONDS * 1000,
    logLevel: values.HOLDFAST_LOG_LEVEL,
  }
}
