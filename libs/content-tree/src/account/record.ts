/** The data of an account, apart from its content. Immutable: a change makes a new one. */
import { isTier, type Tier } from '@holdfast/kernel'
import type { AccountView, SetAccount } from '@holdfast/wire'
import type { TreeSettings } from '../contract.ts'
import type { Totals } from '../tree/hierarchy.ts'

export interface AccountRecord {
  readonly id: string
  /** As sent; undefined for guests. */
  readonly email: string | undefined
  /** True once somebody signed in by a mail to this address. */
  readonly emailConfirmed: boolean
  readonly tier: Tier
  readonly premiumType: string | undefined
  /** Unix seconds. */
  readonly createTime: number
  readonly tokenKeyId: number
  readonly tokenCounter: number
  /** Key of the token before the last reset: a repeated reset may still name it. */
  readonly previousTokenKeyId: number
  readonly recycleBin: boolean
  /** Set by the operator; undefined: the tier's. */
  readonly limitContents: number | undefined
  readonly limitStorage: number | undefined
  /** Bytes. */
  readonly trafficDirect: number
  readonly trafficWeb: number
  /** Unix seconds: uses of contents are noted from then on; undefined: they are not. */
  readonly idleFrom: number | undefined
  /** Unix seconds: an operator deleted the account, and its contents are gone then. */
  readonly endTime: number | undefined
}

const defaultPremiumType = 'subscription'

/** Merges: absent fields stay as they are. */
export function withSet(record: AccountRecord, set: SetAccount): AccountRecord {
  const tier = set.tier !== undefined && isTier(set.tier) ? set.tier : record.tier
  const premiumType = set.premiumType ?? record.premiumType ?? defaultPremiumType
  return {
    ...record,
    tier,
    premiumType: tier === 'premium' ? premiumType : undefined,
    recycleBin: set.recycleBin ?? record.recycleBin,
    limitContents:
      set.limitContents ?? (set.clearLimits || set.clearLimitContents ? undefined : record.limitContents),
    limitStorage:
      set.limitStorage ?? (set.clearLimits || set.clearLimitStorage ? undefined : record.limitStorage),
    // Undoing a deletion starts the time again, because downloads were refused during the deletion.
    idleFrom: set.clearEndTime ? (set.idleFrom ?? record.idleFrom) : (record.idleFrom ?? set.idleFrom),
    endTime: set.endTime ?? (set.clearEndTime ? undefined : record.endTime),
  }
}

/** Limits in force; undefined: none. */
export function limitsOf(record: AccountRecord, settings: TreeSettings) {
  const tier = settings.tiers[record.tier]
  return {
    contents: record.limitContents ?? tier.contents,
    storage: record.limitStorage ?? tier.storage,
    traffic: tier.traffic,
  }
}

export function accountView(
  record: AccountRecord,
  settings: TreeSettings,
  tree: { rootId: string; binId: string; totals: Totals; directLinkCount: number },
): AccountView {
  const limits = limitsOf(record, settings)
  return {
    id: record.id,
    email: record.email ?? `${record.id}@guest.invalid`,
    tier: record.tier,
    premiumType: record.premiumType,
    rootFolder: tree.rootId,
    createTime: record.createTime,
    storage: tree.totals.bytes,
    fileCount: tree.totals.files,
    folderCount: tree.totals.folders,
    trafficDirect: record.trafficDirect,
    trafficWeb: record.trafficWeb,
    limitStorage: limits.storage,
    limitContents: limits.contents,
    limitTraffic: limits.traffic,
    recycleBinEnabled: record.recycleBin,
    recycleBinFolder: tree.binId,
    tokenKeyId: record.tokenKeyId,
    tokenCounter: record.tokenCounter,
    rootCreated: record.createTime,
    directLinkCount: tree.directLinkCount,
    emailConfirmed: record.emailConfirmed,
    endTime: record.endTime,
  }
}
