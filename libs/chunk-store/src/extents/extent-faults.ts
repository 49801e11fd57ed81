/** What happens to an extent that cannot be written, or that the disk cannot read. */
import type { BlobFault } from '@holdfast/blob-store'
import type { Log } from '../log.ts'
import type { Space } from '../space/space.ts'
import type { StoreState } from '../state.ts'
import type { Ledger } from '../writing/ledger.ts'
import { ChunkStage } from '../writing/stage.ts'
import type { Extent } from './extent.ts'
import { extentFileName } from './extent-files.ts'
import type { ExtentTable } from './extent-table.ts'
import type { UnreadBlocks } from './scan.ts'

export interface ExtentFaultsDeps {
  extents: ExtentTable
  ledger: Ledger
  space: Space
  state: StoreState
  log: Log
  /** Compaction has something to move. */
  compactLater: () => void
  /** Schedules another attempt to make room for a record. */
  prepareLater: () => void
}

export class ExtentFaults {
  readonly #deps: ExtentFaultsDeps

  constructor(deps: ExtentFaultsDeps) {
    this.#deps = deps
  }

  /**
   * A write or sync failed: its content stays readable and is moved away, uploads that wrote to it
   * are lost.
   */
  failed(extent: Extent): void {
    const { extents, ledger, space, state, log } = this.#deps
    if (extent.failure?.code === 'FULL') space.ranOut()
    if (extent.state === 'free') return // it was not begun; its caller gets the fault
    state.extentFailures++
    log.error(
      { extent: extent.number, error: extent.failure?.message },
      'an extent failed; it accepts nothing more',
    )
    extents.seal(extent)
    ledger.touchExtent(extent)
    for (const holder of [...extent.holders])
      if (holder instanceof ChunkStage) holder.lose(extent.failure as BlobFault)
    space.changed()
    this.#deps.compactLater()
  }

  /** Some of its blocks cannot be read. */
  setAside(extent: Extent, { blocks, unknown }: UnreadBlocks): void {
    const isNews = extent.quarantine === undefined
    extent.setAside('unreadable', { gap: unknown > 0 })
    this.#deps.ledger.touchExtent(extent)
    const details = { extent: extent.number, blocks, unknown }
    if (isNews)
      this.#deps.log.error(
        details,
        'blocks of an extent cannot be read: it is set aside and never used again',
      )
  }

  /** Room for a record was made, or could not be made. */
  prepared(fault: BlobFault | undefined): void {
    const { space, state } = this.#deps
    if (fault?.code === 'FULL') space.ranOut()
    state.writesFail = fault?.code === 'IO'
    if (state.writesFail) this.#deps.prepareLater()
  }

  metForeign({ number }: Extent): void {
    this.#deps.log.error(
      { file: extentFileName(number) },
      'a file exists in the place of a new extent: it is not changed',
    )
  }
}
