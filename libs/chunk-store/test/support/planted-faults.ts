/**
 * Faults that the crash machine must find. Each is put into the parts of the store while a search
 * runs, and removed afterwards.
 */
import { Extent } from '../../src/extents/extent.ts'
import { BlobReader } from '../../src/reading/reader.ts'
import { Ledger } from '../../src/writing/ledger.ts'
import { ChunkStage } from '../../src/writing/stage.ts'
import type { CrashMachine } from './crash-machine.ts'

export interface PlantedFault {
  name: string
  /**
   * States within which it must be found. A multiple of the usual number, for other seeds and
   * orders.
   */
  foundWithin: number
  /** Changes the machine of each load. */
  machine?(machine: CrashMachine): void
  /** Changes the parts of the store. @returns undoes the change. */
  plant?(): () => void
}

export const plantedFaults: readonly PlantedFault[] = [
  {
    name: 'acknowledging before the sync',
    foundWithin: 60,
    machine(machine) {
      machine.liesAboutSync = true
    },
  },
  {
    name: 'an ended stage drops its extents while a write is under way',
    foundWithin: 400,
    plant() {
      const written = new Set<Extent>()
      const { write } = Extent.prototype
      const { abort } = ChunkStage.prototype
      Extent.prototype.write = function (bytes, position) {
        written.add(this)
        return write.call(this, bytes, position)
      }
      ChunkStage.prototype.abort = async function () {
        await abort.call(this)
        for (const extent of written) extent.holders.delete(this)
      }
      return () => {
        Extent.prototype.write = write
        ChunkStage.prototype.abort = abort
      }
    },
  },
  {
    name: 'space is freed without the flush of the catalogue',
    foundWithin: 2_000,
    plant() {
      const { flush } = Ledger.prototype
      Ledger.prototype.flush = function () {
        const caller = new Error('who flushes').stack?.split('\n')[2] ?? ''
        return /#free\b|#freeDead\b/.test(caller) ? Promise.resolve() : flush.call(this)
      }
      return () => {
        Ledger.prototype.flush = flush
      }
    },
  },
  {
    name: 'a reader gives its buffer back before the consumer is done with it',
    foundWithin: 60,
    plant() {
      const { stream } = BlobReader.prototype
      const buffer = Buffer.alloc(2 * 1024 * 1024)
      BlobReader.prototype.stream = async function* (...given) {
        for await (const bytes of stream.apply(this, given)) {
          buffer.set(bytes)
          yield buffer.subarray(0, bytes.length)
        }
      }
      return () => {
        BlobReader.prototype.stream = stream
      }
    },
  },
]
