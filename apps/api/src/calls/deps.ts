import type { AccountClient } from '@holdfast/accounts'
import type { PasswordWork } from '@holdfast/actor-runtime'
import type { HostBudgets, HttpHostOptions, RateLimits, TellsReadiness } from '@holdfast/http-kit'
import type { LookupStore } from '@holdfast/journal'
import type { Clock, Keyring, RegionCode } from '@holdfast/kernel'
import type { BlockChecks } from '@holdfast/moderation'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'

/** The parts and settings of the API host. */
export interface ApiDeps {
  accounts: AccountClient
  keyring: Keyring
  /** Share codes and e-mail addresses: routes to accounts, never proof. */
  lookups: LookupStore
  rateLimits: RateLimits
  /** Clients that the operator blocks, and withdrawn invitations. */
  blocked: Pick<BlockChecks, 'blocksAddress' | 'blocksInvitation'>
  /** Undefined: the host makes its own. */
  budgets: HostBudgets | undefined
  /** Shared with the checks of passwords of the same process. Undefined: it makes none. */
  passwordWork: PasswordWork | undefined
  readiness: TellsReadiness
  log: Logger
  metrics: Registry
  clock: Clock
  /** Names of the nodes that now hold a placement group's files, nearest first. */
  serversOf: (placementGroup: number, createdMs: number) => readonly string[]
  /** Origin of a content's direct links; undefined: that of all downloads. */
  directUrlOf: ((contentId: string) => string | undefined) | undefined
  /**
   * Origin of a region's upload host where its name does not follow from our own; undefined when
   * none is known, or when it returns undefined.
   */
  uploadUrlOf: ((region: RegionCode) => string | undefined) | undefined
  settings: ApiSettings
}

export interface ApiSettings {
  trustProxy: HttpHostOptions['trustProxy']
  /** Used in links; no slash at the end. */
  urls: { api: string; upload: string; download: string; web: string }
  /** Where new accounts are created. */
  region: RegionCode
  /** Regions whose upload hosts have names; includes `region`. */
  regions: readonly RegionCode[]
  /** The regions with which the installation was made, in one order everywhere. */
  founders: readonly RegionCode[]
  /** `GET /contents/{id}` and search for every tier. */
  openListing: boolean
  /** Direct links need premium. */
  directLinksPremium: boolean
  /** Who may make an account; domains of addresses in lower case, none: any. */
  signUp: { mode: 'open' | 'invite' | 'closed'; domains: readonly string[] }
  /** Key from which new tokens are derived. */
  tokenKeyId: number
}
