/**
 * The owner's comparison of its references with what it uses.
 *
 * The state says what is used, in one turn; the rows are read outside of it. Meanwhile the account
 * continues: a newly used blob gets its reference by itself and is not unclaimed any more, and the
 * reference of a released blob is deleted when this look is over (see `PendingEffects.look`). The
 * result is used only after everything the state was made of is durable: the reference of a blob
 * that a pending change releases must exist if that change fails.
 */
import { referenceKey } from '@holdfast/journal'
import type { ReconcileView } from '@holdfast/wire'
import { forEachAtMost } from '../queues/semaphore.ts'
import type { Services } from '../services.ts'
import type { Look } from './pending-effects.ts'

/** Rows read at one time. */
const readsAtOnce = 64

const idBytes = 48

export function blobNamed(name: Uint8Array): { id: Buffer; incarnation: Buffer } {
  return { id: Buffer.from(name.subarray(0, idBytes)), incarnation: Buffer.from(name.subarray(idBytes)) }
}

/**
 * @param view what the durable state said. @param look on its unclaimed blobs; over when this
 *   resolves.
 * @param restore writes references as the owner.
 * @throws JournalFault
 */
export async function mendReferences(
  { lookups }: Pick<Services, 'lookups'>,
  {
    account,
    view,
    look,
    dryRun,
    restore,
  }: {
    account: string
    view: ReconcileView
    look: Look
    dryRun: boolean
    restore: (keys: readonly string[]) => Promise<void>
  },
): Promise<ReconcileView> {
  const keysOf = (names: readonly Uint8Array[]) => names.map((name) => referenceKey(blobNamed(name), account))
  const presentAmong = async (keys: readonly string[]) => {
    const present = new Set<string>()
    await forEachAtMost(readsAtOnce, keys, async (key) => {
      if ((await lookups.get(key)) !== undefined) present.add(key)
    })
    return present
  }
  const used = keysOf(view.used)
  const strangers = keysOf(view.strangers)
  const present = await presentAmong([...used, ...strangers])
  const missing = used.filter((key) => !present.has(key))
  const orphaned = strangers.filter((key) => present.has(key))
  let mended = 0
  if (!dryRun && missing.length > 0) {
    await restore(missing)
    mended += missing.length
  }
  if (!dryRun) mended += await look.remove(orphaned)
  const { next, tier } = view
  const figures = { looked: used.length, missing: missing.length, orphaned: orphaned.length, mended }
  return { used: [], strangers: [], next, tier, ...figures }
}
