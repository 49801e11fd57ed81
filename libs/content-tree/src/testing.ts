/** For tests of what decides as accounts do. */
import type { Keyring } from '@holdfast/kernel'
import { metadataBytesMax } from './bounds.ts'
import { noLifetimes, type TierLimits, type TreeSettings } from './contract.ts'

const unlimited: TierLimits = { storage: undefined, contents: undefined, traffic: undefined }

/** Default settings of accounts in tests: no caps, nothing expires by itself. */
export function plainSettings(keyring: Keyring, changes: Partial<TreeSettings> = {}): TreeSettings {
  return {
    ids: keyring.ids,
    codes: keyring.codes,
    legacyCodes: keyring.legacyCodes,
    tokens: keyring.tokens,
    tiers: { guest: unlimited, standard: unlimited, premium: unlimited },
    openListing: false,
    directLinksPremium: false,
    guestUploads: true,
    metadataBytesMax,
    lifetimes: { guest: noLifetimes, standard: noLifetimes },
    undoSeconds: 0,
    ...changes,
  }
}
