/**
 * The owner's comparison of its references and routes with what it uses.
 *
 * The state says what is used, in one turn; the rows are read outside of it. Meanwhile the account
 * continues. A newly used blob gets its reference by itself and is not unclaimed any more. The
 * reference of a released blob is deleted when this look is over (see `PendingEffects.look`). The
 * result is used only after all changes in that state are durable: if a pending change that
 * releases a blob fails, the reference must still exist.
 */

import { emailKey } from '@holdfast/accounts'
import type { AccountState } from '@holdfast/content-tree'
import { type LookupChange, lookupKeyOf, referenceKey } from '@holdfast/journal'
import { blobIdBytes } from '@holdfast/kernel'
import type { ReconcileView, UsesPlace } from '@holdfast/wire'
import { routeRow } from '../../lookups/lookup-rows.ts'
import { forEachAtMost } from '../../queues/semaphore.ts'
import type { Services } from '../../services.ts'
import type { ReferenceCheck } from './pending-effects.ts'

/** Rows read at one time. */
const readsAtOnce = 64

/** Behind the last blob or content: nothing is left of that part. */
export const end = 2 ** 31 - 1

/** What of an account's routes is compared in one look. */
export interface RouteLook {
  routes: LookupChange[]
  /** Undefined: it was compared before, or there is none. */
  email: string | undefined
  /** The content to continue from. */
  next: number
}

/** Reads the state in one turn. */
export function routesFrom(state: AccountState, account: string, content: number): RouteLook {
  if (content === end) return { routes: [], email: undefined, next: end }
  const { blocks, next = end } = state.codeBlocks(content)
  const routes = new Map<string, LookupChange>()
  for (const { length, block } of blocks) {
    const route = routeRow(length, block, account)
    routes.set(lookupKeyOf(route), route)
  }
  return { routes: [...routes.values()], email: content === 0 ? state.email : undefined, next }
}

/** Where the next look continues. */
export function placeBehind(
  epoch: number,
  { blobs, contents }: { blobs: UsesPlace | undefined; contents: number },
): UsesPlace | undefined {
  const row = blobs?.row ?? end
  return row === end && contents === end ? undefined : { epoch, row, content: contents }
}

export function blobNamed(name: Uint8Array): { id: Buffer; incarnation: Buffer } {
  return {
    id: Buffer.from(name.subarray(0, blobIdBytes)),
    incarnation: Buffer.from(name.subarray(blobIdBytes)),
  }
}

/**
 * @param view what the durable state said. @param look on its unclaimed blobs; over when this
 *   resolves.
 * @param restore writes references and routes as the owner.
 * @throws JournalFault
 */
export async function repairReferences(
  { lookups, log }: Pick<Services, 'lookups' | 'log'>,
  {
    account,
    view,
    look,
    routeLook,
    dryRun,
    restore,
  }: {
    account: string
    view: ReconcileView
    look: ReferenceCheck
    routeLook: RouteLook
    dryRun: boolean
    restore: (rows: readonly LookupChange[]) => Promise<void>
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
  const unknown = keysOf(view.strangers)
  const present = await presentAmong([...used, ...unknown])
  const missing = used.filter((key) => !present.has(key))
  const orphaned = unknown.filter((key) => present.has(key))
  let mended = 0
  if (!dryRun) {
    await restore(missing.map((key) => ({ put: key, value: new Uint8Array() })))
    mended += missing.length + (await look.remove(orphaned))
  }
  const routes = await mendRoutes().catch((err: unknown) => {
    // Another region that is asked may be unreachable. References do not depend on it.
    log.warn({ account, err }, 'the routes to an account could not be compared, and will be later')
    return { looked: 0, missing: 0, mended: 0 }
  })
  return {
    ...{ used: [], strangers: [], next: view.next, tier: view.tier },
    ...{ looked: used.length, missing: missing.length, orphaned: orphaned.length },
    ...{ mended: mended + routes.mended, routes: routes.looked, missingRoutes: routes.missing },
  }

  async function mendRoutes() {
    const { routes, email } = routeLook
    const found = await presentAmong(routes.map(lookupKeyOf))
    const lost = routes.filter((route) => !found.has(lookupKeyOf(route)))
    const lacksAddress = email !== undefined && (await lookups.get(emailKey(email))) === undefined
    const figures = {
      looked: routes.length + (email === undefined ? 0 : 1),
      missing: lost.length + (lacksAddress ? 1 : 0),
    }
    if (dryRun) return { ...figures, mended: 0 }
    await restore(lost)
    if (!lacksAddress) return { ...figures, mended: lost.length }
    const holder = Buffer.from(await lookups.claim(emailKey(email), Buffer.from(account))).toString()
    if (holder !== account)
      log.warn({ account, holder }, 'the address of an account leads to another account')
    return { ...figures, mended: lost.length + (holder === account ? 1 : 0) }
  }
}
