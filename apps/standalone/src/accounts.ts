/** The accounts of this process: the pure core, its runtime, and the routes to them. */

import { type AccountClient, type AccountVersions, RoutedAccountClient } from '@holdfast/accounts'
import {
  AccountHost,
  type HostMetrics,
  PasswordWork,
  type QuarantinedAccount,
  type ReleasedBlob,
  type RepairReport,
} from '@holdfast/actor-runtime'
import { accountHostOptions } from '@holdfast/bootstrap'
import { MemoryBus } from '@holdfast/bus'
import type { Config } from '@holdfast/config'
import type { JournalRepair, JournalStore, LookupStore } from '@holdfast/journal'
import type { Clock, Keyring, Tracer } from '@holdfast/kernel'
import type { Mailer } from '@holdfast/mail'
import { tracedAccounts } from '@holdfast/tracing'
import type { Logger } from 'pino'

export interface AccountsDeps {
  config: Config
  journals: JournalStore & JournalRepair
  lookups: LookupStore
  keyring: Keyring
  mailer: Mailer
  /** Target of sign-in links. */
  webUrl: string
  clock: Clock
  log: Logger
  metrics: HostMetrics
  tracer: Tracer | undefined
  /** While true, no timer fires. */
  isClockOff: () => boolean
  /** Why the journals accept no writes now. */
  unwritable: () => Error | undefined
  onBlobReleased: (released: ReleasedBlob) => void
}

export interface Accounts {
  client: AccountClient
  versions: AccountVersions
  active(): number
  /** Accounts in quarantine because of damage or a bug. */
  quarantined(): QuarantinedAccount[]
  /** The turns of slow checks of passwords. New passwords are hashed in the same turns. */
  passwordWork: PasswordWork
  repair(question: { account: string; dryRun: boolean }): Promise<RepairReport>
  close(): Promise<void>
}

/** There is one host, so its name does not matter; the journals show it as owner. */
const hostId = 'standalone'
/**
 * How long a close lets accounts finish. Little is running after the HTTP hosts have drained. The
 * next start recovers what has not ended in this time.
 */
const restMs = 5_000

export function startAccounts(deps: AccountsDeps): Accounts {
  const { clock } = deps
  const log = deps.log.child({ part: 'accounts' })
  const bus = new MemoryBus({
    onHandlerError: ({ subject, error }) =>
      log.error({ subject, err: error }, 'a request was left without an answer'),
  })
  const work = new PasswordWork()
  const host = new AccountHost(
    accountHostOptions({
      ...deps,
      passwordWork: work,
      hostId,
      bus,
      log,
      journalBackup: undefined,
      hostOf: undefined,
      predecessorOf: undefined,
      replicaOf: undefined,
      homes: undefined,
    }),
  )
  host.start()
  return {
    client: tracedAccounts(
      new RoutedAccountClient({
        bus,
        hostOf: () => hostId,
        unwritable: deps.unwritable,
        local: { hostId, take: (request) => host.take(request) },
        onHostsChanged: undefined,
        onSilent: undefined,
        clock,
        timers: undefined,
        randomness: undefined,
      }),
      deps.tracer,
    ),
    versions: host,
    active: () => host.activeAccounts,
    quarantined: () => host.quarantined,
    passwordWork: work,
    repair: ({ account, dryRun }) => host.repair(account, { dryRun }),
    async close() {
      await host.close({ drainMs: restMs })
      await bus.close()
    },
  }
}
