/** The API host over the real runtime and core, on memory stores. Time can be advanced. */

import { createHash } from 'node:crypto'
import { type AccountClient, type LocalHost, RoutedAccountClient } from '@holdfast/accounts'
import { plainClient } from '@holdfast/accounts/testing'
import { AccountHost } from '@holdfast/actor-runtime'
import { plainHost } from '@holdfast/actor-runtime/testing'
import { MemoryBus } from '@holdfast/bus'
import { createAccountStates } from '@holdfast/content-tree'
import { plainSettings } from '@holdfast/content-tree/testing'
import {
  type AnswerBudget,
  createRateLimits,
  type RateLimitPolicies,
  SmallPiecesLane,
} from '@holdfast/http-kit'
import { MemoryJournalStore, MemoryLookupStore, MemoryMedium } from '@holdfast/journal/testing'
import { Keyring, mintRequestId, systemClock } from '@holdfast/kernel'
import { type BlockChecks, nothingBlocked } from '@holdfast/moderation'
import { type AccountRequest, blank, SetAccount } from '@holdfast/wire'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import type { Test } from 'tap'
import { type ApiSettings, createApi } from '../src/index.ts'

export interface Answer {
  code: number
  status: string
  // biome-ignore lint/suspicious/noExplicitAny: each test states the type
  data: any
  // biome-ignore lint/suspicious/noExplicitAny: the same
  metadata: any
  headers: Record<string, unknown>
}

export interface Guest {
  id: string
  rootFolder: string
  tier: string
  token: string
}

export interface WorldOptions {
  settings?: Partial<ApiSettings>
  limits?: RateLimitPolicies
  contentsMax?: number
  /** Instead of the real runtime's. */
  accounts?: AccountClient
  blocked?: BlockChecks
  /** The budget of running answers. */
  answers?: AnswerBudget
  /** Runs before each call of the real one. */
  beforeCall?: (request: { operation?: AccountRequest['operation'] }) => void
}

export function world(t: Test, options: WorldOptions = {}) {
  const clock = { aheadMs: 0, now: () => Date.now() + clock.aheadMs, monotonic: systemClock.monotonic }
  const keyring = new Keyring(new Uint8Array(32).fill(3))
  const medium = new MemoryMedium()
  const lookups = new MemoryLookupStore(medium)
  const bus = new MemoryBus()
  const mails: { email: string; accountId: string }[] = []
  const { settings, limits: policies, contentsMax = 10_000 } = options
  const limitsOf = { storage: undefined, contents: contentsMax, traffic: undefined }
  const host = new AccountHost({
    ...plainHost,
    sweepMs: 2_000,
    hostId: 'one',
    bus,
    journal: new MemoryJournalStore(medium),
    lookups,
    states: createAccountStates(
      plainSettings(keyring, {
        tiers: { guest: limitsOf, standard: limitsOf, premium: limitsOf },
        openListing: settings?.openListing ?? false,
        directLinksPremium: settings?.directLinksPremium ?? false,
      }),
    ),
    mailer: {
      send: async ({ email, accountId }) => {
        mails.push({ email, accountId })
      },
    },
    clock,
  })
  host.start()
  const local: LocalHost = {
    hostId: 'one',
    take: (request) => host.take(request),
  }
  const routed = new RoutedAccountClient({
    ...plainClient,
    bus,
    hostOf: () => 'one',
    clock,
    local,
  })
  const accounts: AccountClient = options.accounts ?? {
    call: async (request, rest) => {
      options.beforeCall?.(request)
      return await routed.call(request, rest)
    },
  }
  const app = createApi({
    accounts,
    keyring,
    lookups,
    budgets: options.answers && {
      lane: new SmallPiecesLane(),
      answers: options.answers,
      connections: { max: 1_024, perNetworkMax: 1_024 },
      tls: undefined,
      tracer: undefined,
    },
    passwordWork: undefined,
    directUrlOf: undefined,
    uploadUrlOf: undefined,
    rateLimits: createRateLimits(policies ? { mode: 'default', clock, policies } : { mode: 'off', clock }),
    blocked: options.blocked ?? nothingBlocked,
    readiness: { isReady: async () => true },
    log: pino({ level: process.env.LOG ?? 'silent' }),
    metrics: new Registry(),
    clock,
    serversOf: () => ['store1'],
    settings: {
      trustProxy: false,
      urls: {
        api: 'http://api.example',
        upload: 'http://upload.example',
        download: 'http://dl.example',
        web: 'http://web.example',
      },
      region: 'eu-par',
      regions: ['eu-par'],
      founders: ['eu-par'],
      openListing: false,
      directLinksPremium: false,
      signUp: { mode: 'open', domains: [] },
      tokenKeyId: 1,
      ...settings,
    },
  })
  t.teardown(async () => {
    await app.close()
    await host.close({ drainMs: 10_000 })
  })

  async function ask(
    method: string,
    url: string,
    { token, body, ...headers }: Record<string, unknown> & { token?: string; body?: unknown } = {},
  ): Promise<Answer> {
    const answer = await app.inject({
      method: method as 'GET',
      url,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(headers as Record<string, string>),
      },
      ...(body === undefined ? {} : { payload: body as object }),
    })
    const { status, data, metadata } = answer.body === '' ? ({} as Answer) : answer.json<Answer>()
    return { code: answer.statusCode, status, data, metadata, headers: answer.headers }
  }

  /** As the operator or an internal part, past the API. */
  async function command(accountId: string, operation: AccountRequest['operation']) {
    const { result } = await accounts.call(
      {
        accountId,
        requestId: mintRequestId(clock.now()),
        caller: { who: { $case: 'operator', value: {} } },
        clientNetwork: undefined,
        clientRequest: undefined,
        traceparent: undefined,
        tierNeeded: '',
        operation,
      },
      {},
    )
    if (result?.$case === 'refusal') throw new Error(result.value.status)
    return result
  }

  async function guest(tier?: 'standard' | 'premium'): Promise<Guest> {
    const { data } = await ask('POST', '/accounts')
    if (tier !== undefined) {
      await command(data.id, { $case: 'setAccount', value: { ...blank(SetAccount), tier } })
    }
    return data
  }

  /** A file added as by an upload. */
  async function file(account: Guest, folderId: string | undefined, name: string, size = 3) {
    const md5 = createHash('md5').update(name).digest()
    const blob = {
      id: Buffer.concat([md5, Buffer.alloc(32, size)]),
      incarnation: Buffer.alloc(16, 1),
      size,
      crc32: 7,
      placementGroup: 0,
    }
    const result = await command(account.id, {
      $case: 'addFile',
      value: { folderId, name, mimetype: 'text/plain', blob, createAccount: undefined, modTime: undefined },
    })
    if (result?.$case !== 'content' || result.value.item === undefined) throw new Error('no file')
    return result.value.item
  }

  async function folder(account: Guest, parentFolderId: string, rest: object = {}) {
    const answer = await ask('POST', '/contents/createFolder', {
      token: account.token,
      body: { parentFolderId, ...rest },
    })
    if (answer.status !== 'ok') throw new Error(answer.status)
    return answer.data
  }

  return { app, ask, clock, command, file, folder, guest, keyring, lookups, mails, medium, accounts }
}

export const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
