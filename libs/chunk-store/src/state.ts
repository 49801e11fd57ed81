/** Whether the store works, and what it lost: for health checks and the operator. */
import { BlobFault, type QuarantinedFile, type StoreHealth } from '@holdfast/blob-store'
import type { Clock, PartFailure } from '@holdfast/kernel'
import type { Catalogue } from './catalogue/catalogue.ts'
import type { Disk } from './disk/disk.ts'
import { extentFileName } from './extents/extent-files.ts'
import type { ExtentTable } from './extents/extent-table.ts'
import type { Ledger } from './writing/ledger.ts'

export interface StoreStateDeps {
  catalogue: Catalogue
  ledger: Ledger
  extents: ExtentTable
  disk: Disk
  clock: Clock
}

export class StoreState {
  readonly #deps: StoreStateDeps
  /** When a failure was first seen. */
  #failedAtMs: number | undefined
  /**
   * The last attempt to make room for a record failed: uploads are refused. Not a reason to
   * restart, as reads work and the attempt is repeated.
   */
  writesFail = false
  /** Writes and syncs of extents that failed. */
  extentFailures = 0
  /** It is closed, or being closed. */
  closed = false

  constructor(deps: StoreStateDeps) {
    this.#deps = deps
  }

  /** @throws BlobFault `CLOSED`. */
  assertOpen(): void {
    if (this.closed) throw new BlobFault('CLOSED', 'the chunk store is closed')
  }

  /** Why it does not work until it is restarted. */
  get failure(): Error | undefined {
    const { catalogue } = this.#deps
    return catalogue.failure ?? catalogue.damage
  }

  /** The catalogue accepted no batch: it is reopened and retried until it does. */
  get recovering(): boolean {
    const { ledger, catalogue } = this.#deps
    const isBehind = ledger.broken !== undefined || catalogue.recovering === true
    return this.failure === undefined && isBehind
  }

  /** Why nothing can be changed, and since when; a full disk is no such reason. */
  get failing(): PartFailure | undefined {
    const { broken, brokenSinceMs } = this.#deps.ledger
    const { failure } = this
    if (failure !== undefined) this.#failedAtMs ??= this.#deps.clock.monotonic()
    const sinceMs = failure === undefined ? brokenSinceMs : this.#failedAtMs
    const why = failure ?? broken
    if (why === undefined || sinceMs === undefined || (why as BlobFault).code === 'FULL') return undefined
    return { reason: why.message, sinceMs, needsRestart: failure !== undefined }
  }

  get health(): StoreHealth {
    const quarantined: QuarantinedFile[] = []
    const gaps: string[] = []
    for (const extent of this.#deps.extents.all.values()) {
      const { quarantine, gap, fileBytes, liveBytes } = extent
      if (quarantine === undefined) continue
      if (quarantine === 'missing' && liveBytes === 0) continue // no data of it is missing
      const file = extentFileName(extent.number)
      quarantined.push({ file, reason: quarantine, bytes: fileBytes, liveBytes })
      if (gap) gaps.push(file)
    }
    const gap =
      gaps.length === 0
        ? undefined
        : `the content of ${gaps.length} extents is not completely known: ${gaps.slice(0, 8)}`
    const { failure, recovering } = this
    const sendsDirectly = this.#deps.disk.sendsDirectly?.() ?? false
    const catalogue = this.#deps.catalogue.engine ?? 'memory'
    const { extentFailures } = this
    return { failure, recovering, quarantined, extentFailures, gap, sendsDirectly, catalogue }
  }
}
