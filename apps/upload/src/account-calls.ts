/** An upload's requests to accounts. */
import type { AccountClient } from '@holdfast/actor-runtime'
import { guessing, type RateLimits, Refusal } from '@holdfast/http-kit'
import { type AccountId, type Clock, type IdCodec, mintRequestId, parseToken } from '@holdfast/kernel'
import type { AccountReply, AccountRequest, AddFile, Caller, ContentView } from '@holdfast/wire'
import type { FastifyRequest } from 'fastify'
import type { UploadPermissionCache } from './upload-permission-cache.ts'

type Result = NonNullable<AccountReply['result']>
type Operation = NonNullable<AccountRequest['operation']>

const rememberedBodyBytesMax = 1024 ** 2

export interface SignedIn {
  accountId: AccountId
  bytes: Buffer
}

interface Parts {
  accounts: AccountClient
  clock: Clock
  limits: RateLimits
  ids: IdCodec
  permissions: UploadPermissionCache
}

export class AccountCalls {
  readonly #parts: Parts
  readonly #request: FastifyRequest

  constructor(parts: Parts, request: FastifyRequest) {
    this.#parts = parts
    this.#request = request
  }

  /** The account that the token claims; rejects with Refusal error-token when it is no token. */
  signedIn(token: string): SignedIn | Promise<never> {
    const parsed = parseToken(token)
    const accountId = parsed === undefined ? undefined : this.#parts.ids.parseAccount(parsed.account)
    if (parsed !== undefined && accountId !== undefined) return { accountId, bytes: parsed.bytes }
    return this.#refuseToken()
  }

  /** @throws Refusal error-token */
  async authenticate(caller: SignedIn): Promise<void> {
    await this.#askAs(caller, { $case: 'authenticate', value: {} })
  }

  /**
   * May this caller upload into this folder, or into a new one?
   * @throws Refusal with the reason
   */
  async checkUpload(caller: SignedIn, folderId: string | undefined): Promise<void> {
    const owner = folderId === undefined ? caller.accountId : this.#parts.ids.accountOf(folderId)
    if (owner !== caller.accountId) return this.#refuseForeign(caller, owner, folderId as string)
    const { permissions, clock } = this.#parts
    if (this.#isSmall && permissions.has(caller.bytes, folderId)) return
    const askedMs = clock.monotonic()
    await this.#askAs(caller, { $case: 'checkUpload', value: { folderId } })
    permissions.add(caller.bytes, folderId, askedMs)
  }

  /** Adds a file to an account. @param caller undefined: the account is made for it. */
  async addFile(
    accountId: AccountId,
    caller: SignedIn | undefined,
    file: AddFile,
    requestId: Buffer | undefined,
  ): Promise<ContentView> {
    const who: Caller['who'] =
      caller === undefined
        ? { $case: 'system', value: {} }
        : { $case: 'bearer', value: { token: caller.bytes } }
    const result = await this.#ask(accountId, who, { $case: 'addFile', value: file }, requestId)
    if (result.$case !== 'content') throw new Error(`addFile was answered with ${result.$case}`)
    return result.value
  }

  /**
   * For a folder of another account: first whether it exists, then that the caller does not own it.
   */
  async #refuseForeign(caller: SignedIn, owner: AccountId | undefined, folderId: string): Promise<never> {
    await this.authenticate(caller)
    if (owner === undefined) throw new Refusal('error-notFound')
    const who: Caller['who'] = { $case: 'visitor', value: { accountId: caller.accountId } }
    const { result } = await this.#call(owner, who, { $case: 'checkUpload', value: { folderId } })
    const isThere = result?.$case !== 'refusal' || result.value.status !== 'error-notFound'
    throw new Refusal(isThere ? 'error-notOwner' : 'error-notFound')
  }

  /**
   * A large body justifies another check: changes since the last one are reported before the bytes
   * are sent.
   */
  get #isSmall(): boolean {
    return Number(this.#request.headers['content-length']) <= rememberedBodyBytesMax
  }

  /** Before the token is known to be right. */
  #askAs({ accountId, bytes }: SignedIn, operation: Operation): Promise<Result> {
    return guessing(this.#parts.limits, this.#request, async (guesses) => {
      await guesses.begin('token')
      const { result } = await this.#call(accountId, { $case: 'bearer', value: { token: bytes } }, operation)
      if (result?.$case === 'refusal' && result.value.status === 'error-token') await guesses.wrong('token')
      return resultOf(result, operation)
    })
  }

  async #ask(
    accountId: AccountId,
    who: Caller['who'],
    operation: Operation,
    requestId?: Buffer,
  ): Promise<Result> {
    const { result } = await this.#call(accountId, who, operation, requestId)
    if (result?.$case === 'refusal' && result.value.status === 'error-token') return this.#refuseToken()
    return resultOf(result, operation)
  }

  #call(
    accountId: AccountId,
    who: Caller['who'],
    operation: Operation,
    requestId?: Buffer,
  ): Promise<AccountReply> {
    return this.#parts.accounts.call(
      {
        accountId,
        requestId: requestId ?? mintRequestId(this.#parts.clock.now()),
        caller: { who },
        tierNeeded: '',
        clientNetwork: who?.$case === 'visitor' ? this.#parts.limits.networkKey(this.#request) : undefined,
        operation,
      },
      {},
    )
  }

  async #refuseToken(): Promise<never> {
    await guessing(this.#parts.limits, this.#request, (guesses) => guesses.wrong('token'))
    throw new Refusal('error-token')
  }
}

/** @throws Refusal with the account's status */
function resultOf(result: AccountReply['result'], operation: Operation): Result {
  if (result === undefined) throw new Error(`empty reply to ${operation.$case}`)
  if (result.$case === 'refusal') throw new Refusal(result.value.status)
  return result
}
