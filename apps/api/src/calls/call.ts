/**
 * One API call: the caller, and how it asks accounts.
 *
 * The account of a content follows from its id. Its owner is asked as the bearer; token and tier
 * are checked in the same turn that answers. Any other caller is first authenticated at the account
 * of the token and then asks as a visitor.
 */
import { setImmediate as othersTurn } from 'node:timers/promises'
import { type AccountResult, type Asker, asBearer, ask, asVisitor, type TokenClaim } from '@holdfast/accounts'
import { type AnswerShare, RefusalError, type RequestGuesses, shareOf } from '@holdfast/http-kit'
import { type AccountId, isShareCode } from '@holdfast/kernel'
import { type AccountOperation, operations, type ReadContent, SortField } from '@holdfast/wire'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext } from './context.ts'

/** The account whose token the request carries. */
export interface SignedIn extends TokenClaim {
  token: string
  /**
   * The token came in a cookie: a browser sends it whether or not it is still valid, so a bad one
   * is no guess.
   */
  byCookie: boolean
}

/** The answer with the most items: ten thousand of them as objects. */
const viewBytes = 8 * 1024 * 1024

export class Call {
  readonly context: ApiContext
  readonly request: FastifyRequest
  readonly #reply: FastifyReply
  /** `premium` or empty. */
  readonly tier: string
  /** Undefined where no token is needed and none was sent. */
  readonly signedIn: SignedIn | undefined
  /** Derived from the Idempotency-Key; undefined without one. */
  readonly keyRequestId: Buffer | undefined
  /** The guesses of this request; the server of the operation ends them. */
  readonly guesses: RequestGuesses

  constructor(options: {
    context: ApiContext
    request: FastifyRequest
    reply: FastifyReply
    tier: string
    signedIn: SignedIn | undefined
    keyRequestId: Buffer | undefined
    guesses: RequestGuesses
  }) {
    this.context = options.context
    this.request = options.request
    this.#reply = options.reply
    this.tier = options.tier
    this.signedIn = options.signedIn
    this.keyRequestId = options.keyRequestId
    this.guesses = options.guesses
  }

  get nowMs(): number {
    return this.context.clock.now()
  }

  get nowSeconds(): number {
    return Math.floor(this.nowMs / 1000)
  }

  /** The account of the token. @throws RefusalError error-token without one */
  get caller(): SignedIn {
    if (this.signedIn === undefined) throw new RefusalError('error-token')
    return this.signedIn
  }

  /** True when the client asks for a representation of the result, RFC 7240. */
  get wantsRepresentation(): boolean {
    return /(?:^|[,;\s])return\s*=\s*"?representation\b/i.test(String(this.request.headers.prefer ?? ''))
  }

  /**
   * Waits for room for an answer of thousands of items. A call takes the room before it asks the
   * account. Otherwise the objects of many answers would already be in memory while they wait for
   * their readers. Close the share when the answer is written; it ends with the response at the
   * latest.
   *
   * When many readers leave at once, waiting calls get room one by one, before the loop has seen
   * that their own readers left too. So a call begins one turn of the loop after it gets room, and
   * only when it is its network's turn.
   *
   * @throws RefusalError error-unavailable when there was no room in time, or the reader has left
   */
  async takeView(): Promise<AnswerShare> {
    const share = shareOf(this.request, this.#reply, this.context.views)
    const room = share.take(viewBytes)
    if (room !== undefined) {
      await room
      await othersTurn()
    }
    const turn = share.next()
    if (turn !== undefined) await turn
    if (this.#reply.raw.destroyed) throw new RefusalError('error-unavailable')
    return share
  }

  /** Checks token and tier, nothing else. */
  async authenticate(): Promise<void> {
    await this.askOwn({ $case: 'authenticate', value: {} })
  }

  /** Asks the caller's own account. */
  askOwn(operation: AccountOperation): Promise<AccountResult> {
    return this.askAccount(this.caller.accountId, asBearer(this.caller), operation)
  }

  /**
   * Asks the account of this content: as its owner, or as a visitor once the caller's token and
   * tier were accepted.
   */
  async askOf(contentId: string, operation: AccountOperation): Promise<AccountResult> {
    const owner = this.context.ids.accountOf(contentId)
    if (owner !== undefined && owner === this.signedIn?.accountId) return await this.askOwn(operation)
    if (this.signedIn !== undefined) await this.authenticate()
    if (owner === undefined) throw new RefusalError('error-notFound')
    return await this.askVisitor(owner, operation)
  }

  /** Asks as a visitor; the caller was authenticated before. */
  askVisitor(accountId: AccountId, operation: AccountOperation): Promise<AccountResult> {
    return this.askAccount(accountId, asVisitor(this.signedIn?.accountId), operation)
  }

  /**
   * @throws RefusalError with the account's own status; wrong tokens and passwords draw on the
   * address' budget of guesses.
   */
  async askAccount(accountId: AccountId, who: Asker, operation: AccountOperation): Promise<AccountResult> {
    try {
      return await ask(this.context, {
        accountId,
        who,
        operation,
        // All other requests get a new id, so that answers are never confused.
        requestId: operations[operation.$case].isKeyed ? this.keyRequestId : undefined,
        tierNeeded: who.$case === 'bearer' ? this.tier : '',
        clientNetwork: this.networkKey,
      })
    } catch (error) {
      if (error instanceof RefusalError) await this.#countWrong(error.status)
      throw error
    }
  }

  /**
   * The content that a UUID or share code names.
   * @throws RefusalError error-notFound for an unknown code
   */
  async contentNamed(name: string): Promise<string> {
    if (!isShareCode(name)) return name
    await this.guesses.begin('code')
    const contentId = await this.context.codes.contentOf(name, { clientNetwork: this.networkKey })
    if (contentId !== undefined) {
      this.guesses.right('code')
      return contentId
    }
    if (this.signedIn !== undefined) await this.authenticate()
    await this.guesses.wrong('code')
    throw new RefusalError('error-notFound')
  }

  /** True for content of the caller's account. */
  owns(contentId: string): boolean {
    return this.context.ids.accountOf(contentId) === this.caller.accountId
  }

  /**
   * Refuses ids of other accounts before any change: unknown content first, then content of others.
   * @throws RefusalError error-notFound, or the given status
   */
  async refuseForeign(
    contentIds: readonly string[],
    status: 'error-owner' | 'error-notOwner',
  ): Promise<void> {
    const foreign = contentIds.find((id) => !this.owns(id))
    if (foreign === undefined) return
    await this.authenticate()
    const owner = this.context.ids.accountOf(foreign)
    if (owner === undefined) throw new RefusalError('error-notFound')
    const reply = await this.#probe(owner, foreign)
    throw new RefusalError(reply === 'error-notFound' ? 'error-notFound' : status)
  }

  /** The status for a visitor without a password. */
  async #probe(accountId: AccountId, contentId: string): Promise<string | undefined> {
    try {
      await ask(this.context, {
        accountId,
        who: asVisitor(this.caller.accountId),
        operation: { $case: 'readContent', value: lookAt(contentId) },
        clientNetwork: this.networkKey,
      })
      return undefined
    } catch (error) {
      if (error instanceof RefusalError) return error.status
      throw error
    }
  }

  /**
   * Identifies the client's network without revealing it; undefined where networks have no limits.
   */
  get networkKey(): string | undefined {
    return this.context.rateLimits.networkKey(this.request)
  }

  async #countWrong(status: string): Promise<void> {
    if (status === 'error-token') {
      this.context.tokens.forget(this.signedIn?.token)
      if (this.signedIn?.byCookie !== true) await this.guesses.wrong('token')
    }
    if (status === 'error-passwordWrong') await this.guesses.wrong('password')
  }
}

/** The content itself, with as few children as possible. */
export function lookAt(contentId: string, password?: string): ReadContent {
  return {
    contentId,
    password,
    page: 1,
    pageSize: 1,
    sortField: SortField.CREATE_TIME,
    ascending: false,
    contentFilter: '',
    contentName: undefined,
    columns: undefined,
    maxDepth: 1,
  }
}
