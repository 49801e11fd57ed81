/** The parts of a process of a cluster after it joined. */
import type { AccountClient } from '@holdfast/accounts'
import type { Readiness } from '@holdfast/admin'
import type { DescriptorBudget } from '@holdfast/bootstrap'
import type { ClusterConfig, ClusterSecrets } from '@holdfast/config'
import type { CountingRateLimits, HostBudgets } from '@holdfast/http-kit'
import type {
  JournalBackup,
  JournalRepair,
  JournalReplica,
  JournalStore,
  LookupStore,
} from '@holdfast/journal'
import type { PassStep } from '@holdfast/journal-cassandra'
import type { Clock, Keyring, RegionCode, Tracer } from '@holdfast/kernel'
import type { NatsMembership } from '@holdfast/membership-nats'
import type { BlockLists, Reports, TransferLog } from '@holdfast/moderation'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { AccountRounds } from './accounts/account-rounds.ts'
import type { AccountRoutes } from './accounts/account-routes.ts'
import type { RegionMap } from './regions/region-map.ts'
import type { ClusterBus } from './servers/connect-servers.ts'
import type { ClusterTrust } from './servers/trust.ts'
import type { WholeKeyspaces } from './servers/whole-keyspaces.ts'
import type { SharedBans } from './sharing/shared-bans.ts'
import type { GroupRows } from './storage/group-rows.ts'
import type { NodeAdminStates } from './storage/node-admin-states.ts'
import type { StoragePeers } from './storage/storage-peers.ts'

export interface ClusterPart {
  readonly config: ClusterConfig
  readonly secrets: ClusterSecrets
  readonly trust: ClusterTrust
  /** Corrected by those of the other members while it is off. */
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Registry
  readonly bus: ClusterBus
  /** Undefined: no request is traced. */
  readonly tracer: Tracer | undefined
  readonly lookups: LookupStore
  /** Birth regions whose accounts this region keeps, for actor hosts. */
  readonly homes: { of(account: string): string; served(): readonly string[] }
  /** Journals of the accounts whose homes are here. Only actor hosts read them. */
  readonly journals: JournalStore & JournalRepair & JournalBackup
  readonly keyring: Keyring
  readonly regions: RegionMap
  readonly membership: NatsMembership
  /** The wall clock is far from those of the other members: nothing expires by its time. */
  readonly isClockOff: () => boolean
  readonly routes: AccountRoutes
  readonly accounts: AccountClient
  readonly peers: StoragePeers
  /** The operator's decisions about storage nodes. */
  readonly nodes: NodeAdminStates
  readonly groups: GroupRows
  /** What operators block. */
  readonly blocked: BlockLists
  readonly transfers: TransferLog
  readonly reports: Reports
  readonly rateLimits: CountingRateLimits
  /** Budgets of the public hosts of this process. */
  readonly budgets: HostBudgets
  readonly adminConnections: DescriptorBudget['adminConnections']
  readonly bans: SharedBans
  readonly readiness: Readiness
  /** Names of the nodes that hold a group's files, nearest healthy first. */
  readonly serversOf: (placementGroup: number, createdMs: number) => readonly string[]
  /**
   * Public upload host of a region, as reported by one of its processes; undefined when none is
   * heard.
   */
  readonly uploadUrlOf: (region: RegionCode) => string | undefined
  /**
   * Public downloads of the region that serves the content's account, so that a direct link is the
   * same everywhere.
   */
  readonly directUrlOf: (contentId: string) => string | undefined
  /**
   * Opens all accounts born in a region in the term of its home; for actor hosts of a region that
   * keeps their journals. Continues from the cursor of an earlier call.
   */
  takeAll(birth: RegionCode, after: string | undefined): AsyncIterable<PassStep>
  /**
   * The accounts that this region serves, for actor hosts; and the keys of all references. Each
   * from a cursor on.
   */
  listAccounts(after: string | undefined): AsyncIterable<{ account: string; place: string }>
  listReferences(after: string | undefined): AsyncIterable<{ key: string; place: string }>
  /** When every account of every region was last asked for its references. */
  readonly rounds: AccountRounds
  /** All rows of all regions, for a backup or a restore. Its user closes it. */
  openWholeKeyspaces(): WholeKeyspaces
  /** The journal of an account as it arrived here; for actor hosts. */
  replicaOf(account: string): Promise<JournalReplica | undefined>
  /** Starts or stops accepting work from others. Announced at once. */
  setPhase(phase: Readiness['phase']): void
  /** Leaves the cluster: notifies the others first. */
  leave(): Promise<void>
  close(): Promise<void>
}
