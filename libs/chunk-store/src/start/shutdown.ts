/**
 * The clean shutdown: open uploads are dropped, running operations end, and the catalogue is
 * completed and marked. So the next start scans nothing.
 */
import { BlobFault } from '@holdfast/blob-store'
import type { Assembly } from '../assembly.ts'
import { tableListOf } from '../catalogue/table-list.ts'
import { endMarkBytes, endMarkKey } from './clean-shutdown-marker.ts'

export async function shutDown(parts: Assembly): Promise<void> {
  const { catalogue, compactor, end, extents, files, hashing, history, ledger, log, space } = parts
  parts.upkeep.stop()
  await history.close()
  const stagesEnd = parts.stages.loseAll(new BlobFault('CLOSED', 'the chunk store is closed'))
  await compactor.stop()
  await parts.writer.close()
  await space.settled()
  await stagesEnd()
  await extents.settled()
  const { current } = extents
  if (current !== undefined && current.failure === undefined) {
    // Nothing is being written: the next start may continue behind the frontier.
    current.state = 'paused'
    ledger.touchExtent(current)
  }
  const mark = parts.randomFill(Buffer.alloc(endMarkBytes))
  ledger.note(endMarkKey, mark)
  try {
    await ledger.close()
    await catalogue.close()
    const list = catalogue.path === undefined ? undefined : await tableListOf(catalogue.path)
    await end
      .mark(mark, list)
      .catch((error: Error) =>
        log.warn(
          { error: error.message },
          'the clean shutdown could not be marked; the next start scans more',
        ),
      )
  } finally {
    // Each is closed, also when another one cannot be.
    await using closing = new AsyncDisposableStack()
    closing.defer(() => catalogue.close())
    closing.defer(() => files.closeAll())
    closing.defer(() => hashing.close())
  }
}
