/**
 * The host of accounts as both modes build it. What only a cluster has is undefined in the other.
 */
import { getHeapStatistics } from 'node:v8'
import type {
  AccountHostOptions,
  HostMetrics,
  PasswordWork,
  ReleasedBlob,
  RuntimeLog,
} from '@holdfast/actor-runtime'
import type { Bus } from '@holdfast/bus'
import type { AccountsConfig } from '@holdfast/config'
import { createAccountStates, metadataBytesMax } from '@holdfast/content-tree'
import type { JournalBackup, JournalRepair, JournalStore, LookupStore } from '@holdfast/journal'
import type { Clock, Keyring, Tracer } from '@holdfast/kernel'
import type { Mailer } from '@holdfast/mail'
import { signInMailer } from './sign-in-mailer.ts'

export interface AccountHostDeps {
  config: AccountsConfig
  hostId: string
  bus: Bus
  journals: JournalStore & JournalRepair
  journalBackup: JournalBackup | undefined
  lookups: LookupStore
  keyring: Keyring
  mailer: Mailer
  /** Target of sign-in links. */
  webUrl: string
  clock: Clock
  log: RuntimeLog
  metrics: HostMetrics
  tracer: Tracer | undefined
  /** No timer fires meanwhile. */
  isClockOff: () => boolean
  onBlobReleased: ((released: ReleasedBlob) => void) | undefined
  hostOf: AccountHostOptions['hostOf']
  predecessorOf: AccountHostOptions['predecessorOf']
  replicaOf: AccountHostOptions['replicaOf']
  homes: AccountHostOptions['homes']
  /** Shared with the other parts of this process that hash passwords; undefined: nothing does. */
  passwordWork: PasswordWork | undefined
}

/** Accounts may have this part of the heap: the rest is for requests, answers and the collector. */
const heapPart = 6

function heapBytes(): number {
  return getHeapStatistics().heap_size_limit
}

/** How accounts of an installation decide. */
export function accountStates({ config, keyring }: Pick<AccountHostDeps, 'config' | 'keyring'>) {
  return createAccountStates({
    ...config,
    ids: keyring.ids,
    codes: keyring.codes,
    legacyCodes: keyring.legacyCodes,
    tokens: keyring.tokens,
    metadataBytesMax,
  })
}

export function accountHostOptions(deps: AccountHostDeps): AccountHostOptions {
  const { config, keyring } = deps
  return {
    hostId: deps.hostId,
    bus: deps.bus,
    journal: deps.journals,
    journalRepair: deps.journals,
    journalBackup: deps.journalBackup,
    lookups: deps.lookups,
    homes: deps.homes,
    states: accountStates({ config, keyring }),
    mailer: signInMailer({ mailer: deps.mailer, keyring, webUrl: deps.webUrl }),
    onBlobReleased: deps.onBlobReleased,
    hostOf: deps.hostOf,
    predecessorOf: deps.predecessorOf,
    replicaOf: deps.replicaOf,
    sweepMs: config.expirySweepMs,
    isClockOff: deps.isClockOff,
    bounds: { memoryBytesMax: Math.min(config.accountMemoryBytes, heapBytes() / heapPart) },
    clock: deps.clock,
    log: deps.log,
    metrics: deps.metrics,
    tracer: deps.tracer,
    timers: undefined,
    randomness: undefined,
    passwordWork: deps.passwordWork,
    checkPassword: undefined,
  }
}
