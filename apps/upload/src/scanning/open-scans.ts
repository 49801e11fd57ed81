/** The scans of a process, by its settings. */
import type { Config } from '@holdfast/config'
import { type Clock, hex } from '@holdfast/kernel'
import type { BlockLists } from '@holdfast/moderation'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { ClamdScanner } from './clamd-scanner.ts'
import { ContentScans } from './content-scans.ts'
import { ProgramScanner } from './program-scanner.ts'
import { scanMetrics } from './scan-metrics.ts'
import type { Scanner } from './scanner.ts'

export interface OpenScansDeps {
  config: Config['scanning']
  lists: BlockLists
  clock: Clock
  log: Logger
  metrics: Registry
}

const retryMs = 30_000

/** Does not connect to the scanner, so a start does not depend on it. */
export function openScans(deps: OpenScansDeps): ContentScans {
  const { config, lists, clock } = deps
  const log = deps.log.child({ part: 'scans' })
  const scans = new ContentScans({
    scanner: scannerOf(config.scanner),
    settings: config,
    lists,
    clock,
    retryMs,
    onFault: (err, { blob, isStored }) =>
      log.warn(
        { err, blob: hex(blob.id), bytes: blob.size },
        isStored ? 'content was stored without a scan' : 'the scanner gave no verdict, or it was not kept',
      ),
    onFound: (found, { blob }) =>
      log.info({ found, blob: hex(blob.id), bytes: blob.size }, 'the scanner found something'),
  })
  scanMetrics(deps.metrics, scans)
  return scans
}

function scannerOf(chosen: Config['scanning']['scanner']): Scanner | undefined {
  if (chosen === undefined) return undefined
  return 'program' in chosen ? new ProgramScanner(chosen.program) : new ClamdScanner(chosen)
}
