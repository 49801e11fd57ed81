/** An upload's requests to accounts. */
import {
  type AskDeps,
  asBearer,
  ask,
  asSystem,
  asVisitor,
  claimOf,
  type TokenClaim,
  viewOf,
} from '@holdfast/accounts'
import { guessing, type RateLimits, RefusalError } from '@holdfast/http-kit'
import type { AccountId, Clock, IdCodec } from '@holdfast/kernel'
import type { AccountOperation, AddFile, ContentView } from '@holdfast/wire'
import type { FastifyRequest } from 'fastify'
import type { UploadPermissionCache } from './upload-permission-cache.ts'

const rememberedBodyBytesMax = 1024 ** 2

interface CallDeps extends AskDeps {
  clock: Clock
  rateLimits: RateLimits
  ids: IdCodec
  permissions: UploadPermissionCache
}

export class AccountCalls {
  readonly #deps: CallDeps
  readonly #request: FastifyRequest

  constructor(deps: CallDeps, request: FastifyRequest) {
    this.#deps = deps
    this.#request = request
  }

  /**
   * The account that the token claims; rejects with RefusalError error-token when it is no token.
   */
  signedIn(token: string): TokenClaim | Promise<never> {
    return claimOf(token, this.#deps.ids) ?? this.#refuseToken()
  }

  /** @throws RefusalError error-token */
  async authenticate(caller: TokenClaim): Promise<void> {
    await this.#askAs(caller, { $case: 'authenticate', value: {} })
  }

  /**
   * May this caller upload into this folder, or into a new one?
   * @throws RefusalError with the reason
   */
  async checkUpload(caller: TokenClaim, folderId: string | undefined): Promise<void> {
    const owner = folderId === undefined ? caller.accountId : this.#deps.ids.accountOf(folderId)
    if (owner !== caller.accountId) return this.#refuseForeign(caller, owner, folderId as string)
    const { permissions, clock } = this.#deps
    if (this.#isSmall && permissions.has(caller.bytes, folderId)) return
    const askedMs = clock.monotonic()
    await this.#askAs(caller, { $case: 'checkUpload', value: { folderId } })
    permissions.add(caller.bytes, folderId, askedMs)
  }

  /** Adds a file to an account. @param caller undefined: the account is made for it. */
  async addFile(
    accountId: AccountId,
    caller: TokenClaim | undefined,
    file: AddFile,
    requestId: Buffer | undefined,
  ): Promise<ContentView> {
    try {
      const result = await ask(this.#deps, {
        accountId,
        who: caller === undefined ? asSystem : asBearer(caller),
        operation: { $case: 'addFile', value: file },
        requestId,
      })
      return viewOf(result, 'content')
    } catch (error) {
      if (isTokenRefused(error)) return await this.#refuseToken()
      throw error
    }
  }

  /**
   * For a folder of another account: first whether it exists, then that the caller does not own it.
   */
  async #refuseForeign(caller: TokenClaim, owner: AccountId | undefined, folderId: string): Promise<never> {
    await this.authenticate(caller)
    if (owner === undefined) throw new RefusalError('error-notFound')
    try {
      await ask(this.#deps, {
        accountId: owner,
        who: asVisitor(caller.accountId),
        operation: { $case: 'checkUpload', value: { folderId } },
        clientNetwork: this.#deps.rateLimits.networkKey(this.#request),
      })
    } catch (error) {
      if (!(error instanceof RefusalError)) throw error
      if (error.status === 'error-notFound') throw error
    }
    throw new RefusalError('error-notOwner')
  }

  /**
   * A large body justifies another check: changes since the last one are reported before the bytes
   * are sent.
   */
  get #isSmall(): boolean {
    return Number(this.#request.headers['content-length']) <= rememberedBodyBytesMax
  }

  /** Before the token is known to be right. */
  async #askAs(caller: TokenClaim, operation: AccountOperation): Promise<void> {
    const question = { accountId: caller.accountId, who: asBearer(caller), operation }
    await guessing(this.#deps.rateLimits, this.#request, async (guesses) => {
      await guesses.begin('token')
      try {
        await ask(this.#deps, question)
      } catch (error) {
        if (isTokenRefused(error)) await guesses.wrong('token')
        throw error
      }
    })
  }

  async #refuseToken(): Promise<never> {
    await guessing(this.#deps.rateLimits, this.#request, (guesses) => guesses.wrong('token'))
    throw new RefusalError('error-token')
  }
}

function isTokenRefused(error: unknown): boolean {
  return error instanceof RefusalError && error.status === 'error-token'
}
