/**
 * How long content of guests and standard accounts lives: the expiry that a folder gets, the latest
 * that it may have, and when a file is idle. The operator is not bound by it.
 */
import type { Item } from '@holdfast/wire'
import type { Account } from '../account/account.ts'
import type { AccountRecord } from '../account/record.ts'
import { type Lifetimes, noLifetimes, type TreeSettings } from '../contract.ts'

/** The part of a request being decided that lifetimes depend on. */
interface LifetimeInput {
  account: Account
  settings: TreeSettings
  viewer: { kind: string }
  /** Unix seconds. */
  now: number
}

export function lifetimesOf(
  record: Pick<AccountRecord, 'tier'>,
  { lifetimes }: Pick<TreeSettings, 'lifetimes'>,
): Lifetimes {
  return record.tier === 'premium' ? noLifetimes : lifetimes[record.tier]
}

/** The expiry of a new folder. @param inherited that of its parent, or that of a copied folder. */
export function newExpiry(
  context: LifetimeInput,
  inherited: number | undefined,
  record: Pick<AccountRecord, 'tier'> = context.account.known,
): number | undefined {
  const { latest, usual } = newExpiries(context, record)
  const wanted = inherited ?? usual
  return latest === undefined || wanted === undefined ? wanted : Math.min(wanted, latest)
}

/** The expiry of new folders that inherit none, and the latest one that new folders may have. */
export function newExpiries(
  context: LifetimeInput,
  record: Pick<AccountRecord, 'tier'> = context.account.known,
): { usual: number | undefined; latest: number | undefined } {
  if (context.viewer.kind === 'operator') return { usual: undefined, latest: undefined }
  const { folderSeconds, folderSecondsMax } = lifetimesOf(record, context.settings)
  const at = (seconds: number | undefined) => (seconds === undefined ? undefined : context.now + seconds)
  return { usual: at(folderSeconds ?? folderSecondsMax), latest: at(folderSecondsMax) }
}

/**
 * The latest expiry that a folder may get: its longest lifetime counts from its creation. An older
 * folder without an expiry was made before the rule: its time begins now. Undefined: any.
 */
export function latestExpiry({ account, settings, viewer, now }: LifetimeInput, folder: number) {
  const { folderSecondsMax } = lifetimesOf(account.known, settings)
  if (folderSecondsMax === undefined || viewer.kind === 'operator') return undefined
  const { tree } = account
  const created = tree.contents.created[folder] as number
  const latest = Math.max(created + folderSecondsMax, tree.expiryOf(folder) ?? 0)
  return latest > now ? latest : now + folderSecondsMax
}

/** The times in an upload's answer at which the file ends; none where no lifetimes are set. */
export function endsOfNew(
  context: LifetimeInput,
  ends: number | undefined,
  record: Pick<AccountRecord, 'tier'>,
): Partial<Pick<Item, 'expiry' | 'idleExpiry'>> {
  const lifetimes = lifetimesOf(record, context.settings)
  if (Object.values(lifetimes).every((seconds) => seconds === undefined)) return {}
  const { idleSeconds } = lifetimes
  return { expiry: ends, idleExpiry: idleSeconds === undefined ? undefined : context.now + idleSeconds }
}
