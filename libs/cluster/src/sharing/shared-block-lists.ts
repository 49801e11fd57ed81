/** The operators' block lists in every process of a cluster. A change in one reaches all. */
import type { Bus } from '@holdfast/bus'
import type { LookupStore } from '@holdfast/journal'
import type { Clock } from '@holdfast/kernel'
import { BlockLists } from '@holdfast/moderation'
import { heardByAll } from '../subjects.ts'
import { RereadTimer } from './reread-timer.ts'

/** @throws what the lookups throw. */
export async function shareBlockLists({
  lookups,
  bus,
  clock,
  onFault,
}: {
  lookups: LookupStore
  bus: Bus
  clock: Clock
  onFault: (error: unknown) => void
}): Promise<{ lists: BlockLists; close(): void }> {
  const onChange = () => bus.publish(heardByAll.blockLists, new Uint8Array())
  const lists = await BlockLists.open({ lookups, clock, onChange })
  const read = () => void lists.refresh().catch(onFault)
  const rereading = new RereadTimer({ bus, subject: heardByAll.blockLists, read })
  return { lists, close: () => rereading.close() }
}
