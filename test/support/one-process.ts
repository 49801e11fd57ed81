/**
 * Accounts and blobs of one process over memory, with the upload and download hosts in front of
 * them, on separate ports.
 */

import type { AddressInfo } from 'node:net'
import { type AccountClient, BlockedAccounts, RoutedAccountClient } from '@holdfast/accounts'
import { plainClient } from '@holdfast/accounts/testing'
import { AccountHost } from '@holdfast/actor-runtime'
import { plainHost } from '@holdfast/actor-runtime/testing'
import { type BlobStore, MemoryBlobStore } from '@holdfast/blob-store'
import { MemoryBus } from '@holdfast/bus'
import { createAccountStates } from '@holdfast/content-tree'
import { plainSettings } from '@holdfast/content-tree/testing'
import { createDownloads } from '@holdfast/downloads'
import { createRateLimits, type HostBudgets } from '@holdfast/http-kit'
import { MemoryJournalStore, MemoryLookupStore, MemoryMedium } from '@holdfast/journal/testing'
import { type AccountId, type Clock, Keyring, mintRequestId, parseToken, systemClock } from '@holdfast/kernel'
import { type BlockChecks, type NotesTransfers, nothingBlocked, nothingNoted } from '@holdfast/moderation'
import {
  allIsGood,
  createUpload,
  defaultUploadBounds,
  type JudgesContent,
  type UploadSettings,
} from '@holdfast/upload'
import { type AccountOperation, type AccountReply, blank, type Caller, SetAccount } from '@holdfast/wire'
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { Registry } from 'prom-client'

type Result = NonNullable<AccountReply['result']>
type ViewOf<Case extends Result['$case']> = Extract<Result, { $case: Case }>['value']

export interface OneProcessOptions {
  budgets?: HostBudgets
  blobs?: BlobStore
  blocked?: BlockChecks
  scans?: JudgesContent
  transfers?: NotesTransfers
  /** Put between the hosts and the accounts. */
  accounts?: (real: AccountClient) => AccountClient
  upload?: Partial<UploadSettings>
  drainMs?: number
  contentsMax?: number
  rateLimits?: 'default' | 'off'
  clock?: Clock
}

export class OneProcess {
  readonly keyring = new Keyring(Buffer.alloc(32, 7))
  readonly metrics = new Registry()
  readonly blobs: BlobStore
  readonly accounts: AccountClient
  readonly uploads: FastifyInstance
  readonly downloads: FastifyInstance
  readonly #host: AccountHost
  readonly #bus = new MemoryBus()

  /** Listening when it resolves. */
  static async start(options: OneProcessOptions = {}): Promise<OneProcess> {
    const process = new OneProcess(options)
    await process.uploads.listen({ host: '127.0.0.1', port: 0 })
    await process.downloads.listen({ host: '127.0.0.1', port: 0 })
    return process
  }

  private constructor(options: OneProcessOptions) {
    const { keyring } = this
    const { clock = systemClock } = options
    const medium = new MemoryMedium({})
    const tier = { storage: undefined, contents: options.contentsMax ?? 10_000, traffic: undefined }
    this.#host = new AccountHost({
      ...plainHost,
      clock,
      sweepMs: 2_000,
      hostId: 'one',
      bus: this.#bus,
      journal: new MemoryJournalStore(medium),
      lookups: new MemoryLookupStore(medium),
      states: createAccountStates(
        plainSettings(keyring, {
          tiers: { guest: tier, standard: tier, premium: { ...tier, contents: undefined } },
          guestUploads: options.upload?.guestUploads ?? true,
        }),
      ),
      mailer: { send: async () => {} },
    })
    this.#host.start()
    const real = new RoutedAccountClient({
      ...plainClient,
      bus: this.#bus,
      hostOf: () => 'one',
    })
    const blocked = options.blocked ?? nothingBlocked
    this.accounts = new BlockedAccounts(options.accounts?.(real) ?? real, (id) => blocked.blocksAccount(id))
    this.blobs = options.blobs ?? new MemoryBlobStore()
    const startedMs = systemClock.now()
    const shared = {
      accounts: this.accounts,
      blobs: this.blobs,
      blocked,
      transfers: options.transfers ?? nothingNoted,
      keyring,
      clock,
      readiness: { isReady: async () => true },
      log: pino({ level: 'silent' }),
      metrics: this.metrics,
      // Windows are aligned to the clock: none ends during a test.
      rateLimits: createRateLimits({
        mode: options.rateLimits ?? 'off',
        clock: { now: () => startedMs, monotonic: () => systemClock.monotonic() },
      }),
    }
    this.uploads = createUpload({
      ...shared,
      scans: options.scans ?? allIsGood,
      budgets: undefined,
      serversOf: () => ['store1'],
      placeOf: undefined,
      settings: {
        ...defaultUploadBounds,
        trustProxy: false,
        downloadUrl: 'http://down.test',
        webUrl: 'http://web.test',
        region: 'eu-par',
        founders: ['eu-par'],
        guestUploads: true,
        fileBytesMax: undefined,
        drainMs: 30_000,
        tokenKeyId: 1,
        ...options.upload,
      },
    })
    this.downloads = createDownloads({
      ...shared,
      budgets: options.budgets,
      versions: this.#host,
      readsHere: true,
      settings: { webUrl: 'http://web.test', trustProxy: 1, drainMs: options.drainMs ?? 30_000 },
    })
  }

  get uploadPort(): number {
    return (this.uploads.server.address() as AddressInfo).port
  }

  get downloadPort(): number {
    return (this.downloads.server.address() as AddressInfo).port
  }

  /** Asks the account of this token as its owner. @throws when it refuses */
  async ask<Case extends Result['$case']>(
    token: string,
    kind: Case,
    operation: AccountOperation,
  ): Promise<ViewOf<Case>> {
    const parsed = parseToken(token)
    if (parsed === undefined) throw new Error(`no token: ${token}`)
    const who: Caller['who'] = { $case: 'bearer', value: { token: parsed.bytes } }
    const result = await this.askAccount(parsed.account as AccountId, who, operation)
    if (result?.$case !== kind) throw new Error(`${operation.$case}: ${JSON.stringify(result)}`)
    return result.value as ViewOf<Case>
  }

  async askAccount(
    accountId: string,
    who: Caller['who'],
    operation: AccountOperation,
  ): Promise<Result | undefined> {
    const { result } = await this.accounts.call(
      {
        accountId,
        requestId: mintRequestId(Date.now()),
        caller: { who },
        clientNetwork: undefined,
        clientRequest: undefined,
        traceparent: undefined,
        tierNeeded: '',
        operation,
      },
      {},
    )
    return result
  }

  async newAccount(
    tier: 'guest' | 'premium' = 'guest',
  ): Promise<{ id: AccountId; token: string; root: string }> {
    const id = this.keyring.ids.account('eu-par')
    const who: Caller['who'] = { $case: 'operator', value: {} }
    const made = await this.askAccount(id, who, {
      $case: 'createAccount',
      value: { tokenKeyId: 1, email: undefined, isNewId: true },
    })
    if (made?.$case !== 'account') throw new Error(JSON.stringify(made))
    if (tier !== 'guest') {
      await this.askAccount(id, who, { $case: 'setAccount', value: { ...blank(SetAccount), tier } })
    }
    const { tokenKeyId: keyId, tokenCounter: counter, rootFolder } = made.value
    return { id, token: this.keyring.tokens.token(id, { keyId, counter }), root: rootFolder }
  }

  /** The value of a metric. */
  async metric(name: string, labels: Record<string, string> = {}): Promise<number> {
    const { values } = (await this.metrics.getSingleMetric(name)?.get()) ?? { values: [] }
    const found = values.find((one) =>
      Object.entries(labels).every(([label, value]) => one.labels[label] === value),
    )
    return found?.value ?? Number.NaN
  }

  async close(): Promise<void> {
    await this.uploads.close()
    await this.downloads.close()
    await this.#host.close({ drainMs: 1_000 })
    await this.#bus.close()
    await this.blobs.close()
  }
}
