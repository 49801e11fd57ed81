/**
 * Finds the host of an account and sends it requests, with retries and other hosts if needed,
 * within one deadline and with one request id.
 */
import { type Bus, BusFault, maxMessageBytes } from '@holdfast/bus'
import {
  backoffMs,
  type Clock,
  pause,
  type Randomness,
  systemClock,
  systemRandomness,
  systemTimers,
  type Timers,
} from '@holdfast/kernel'
import { AccountReply, AccountRequest } from '@holdfast/wire'
import type { AccountClient } from './contract.ts'
import { AccountsUnavailable } from './errors.ts'
import { cutRequest } from './request-parts.ts'
import { partSubjectOf, subjectOf } from './subjects.ts'

/**
 * The time-out of a call that has none: longer than any healthy answer takes, shorter than the
 * time-outs of clients.
 */
const timeoutMsDefault = 15_000
/**
 * The time-out of a call while accounts cannot be written. Reads of loaded accounts are still
 * answered, in milliseconds.
 */
const unwritableMs = 1_000
const retry = { firstMs: 20, maxMs: 1000 }
/**
 * A dead host cannot report its death to the callers it was answering: they suspect it after this
 * time. Most answers take a few milliseconds.
 */
const suspectAfterMs = 500
/**
 * A redirect may name a host that has fallen silent without the sender's knowledge. Such an
 * unconfirmed redirect is awaited for this long, the next time twice as long; a repeat with the
 * same request id has no second effect.
 */
const unconfirmedRedirectMs = 1_000
/**
 * How long a call waits while no host is known. A lost region may stay away for a long time. A
 * single host restarts sooner, and clients are asked to retry.
 */
const absenceMs = 3_000

export interface RoutedAccountClientOptions {
  bus: Bus
  /**
   * The host that serves the account now, as far as this process knows; undefined: none is known.
   */
  hostOf: (accountId: string) => string | undefined
  /** The host in this very process, if there is one: it is called without the bus. */
  local: LocalHost | undefined
  /**
   * Called when `hostOf` may have changed: requests that wait for a host that is no longer named go
   * to the new one.
   */
  onHostsChanged: ((listener: () => void) => void) | undefined
  /** Called for a host that has not answered for a while, or has no responder: it may be gone. */
  onSilent: ((host: string) => void) | undefined
  /**
   * Why accounts cannot be written now, as far as this process knows; undefined while they can be.
   * While there is a reason, a request waits for `unwritableMs` at most.
   */
  unwritable: (() => Error | undefined) | undefined
  clock: Clock | undefined
  timers: Timers | undefined
  randomness: Randomness | undefined
}

export interface LocalHost {
  hostId: string
  /** The request does not change any more. */
  take(request: AccountRequest): Promise<AccountReply>
}

/** A request, encoded when it first goes over the bus. */
interface RoutedRequest {
  request: AccountRequest
  encoded: Uint8Array | undefined
}

/** Which calls wait for which host. */
interface WaitingCall {
  account: string
  host: string
  moved: AbortController
}

type Attempt =
  | { kind: 'answer'; reply: AccountReply }
  | { kind: 'again'; host?: string | undefined; cause?: unknown }

export class RoutedAccountClient implements AccountClient {
  readonly #bus: Bus
  readonly #hostOf: (accountId: string) => string | undefined
  readonly #local: LocalHost | undefined
  readonly #clock: Clock
  readonly #timers: Timers
  readonly #randomness: Randomness
  readonly #onSilent: (host: string) => void
  readonly #unwritable: () => Error | undefined
  /** Which calls wait for which host; undefined where hosts never change. */
  readonly #waiting: Set<WaitingCall> | undefined

  constructor(options: RoutedAccountClientOptions) {
    const { bus, hostOf, local, onHostsChanged, onSilent = () => {}, clock, timers, randomness } = options
    this.#bus = bus
    this.#hostOf = hostOf
    this.#local = local
    this.#onSilent = onSilent
    this.#unwritable = options.unwritable ?? (() => undefined)
    const waiting = onHostsChanged && new Set<WaitingCall>()
    this.#waiting = waiting
    onHostsChanged?.(() => {
      for (const { account, host, moved } of waiting ?? []) if (hostOf(account) !== host) moved.abort()
    })
    this.#clock = clock ?? systemClock
    this.#timers = timers ?? systemTimers
    this.#randomness = randomness ?? systemRandomness()
  }

  async call(
    request: Omit<AccountRequest, 'deadlineMs'>,
    { timeoutMs = timeoutMsDefault, signal }: { timeoutMs?: number; signal?: AbortSignal } = {},
  ): Promise<AccountReply> {
    const waitMs = this.#unwritable() === undefined ? timeoutMs : Math.min(timeoutMs, unwritableMs)
    const deadlineMs = Math.ceil(this.#clock.now() + waitMs)
    const endsMs = this.#clock.monotonic() + waitMs
    const routed: RoutedRequest = { request: { ...request, deadlineMs }, encoded: undefined }
    let hint: string | undefined
    let unconfirmedRedirects = 0
    let absentSinceMs: number | undefined
    let cause: unknown
    for (let attempt = 0; ; attempt++) {
      const leftMs = endsMs - this.#clock.monotonic()
      if (leftMs <= 0) break
      const host = hint ?? this.#hostOf(request.accountId)
      absentSinceMs = host === undefined ? (absentSinceMs ?? this.#clock.monotonic()) : undefined
      if (absentSinceMs !== undefined && this.#clock.monotonic() - absentSinceMs >= absenceMs) break
      const isUnconfirmed = hint !== undefined && hint !== this.#hostOf(request.accountId)
      const patienceMs = isUnconfirmed ? unconfirmedRedirectMs * 2 ** unconfirmedRedirects++ : undefined
      const tried =
        host === undefined
          ? undefined
          : await this.#askWhileThere(host, routed, { timeoutMs: leftMs, patienceMs, signal })
      if (tried?.kind === 'answer') return tried.reply
      hint = tried?.host
      cause = tried?.cause ?? cause
      const unwritable = this.#unwritable()
      if (unwritable !== undefined)
        throw new AccountsUnavailable(`account ${request.accountId} cannot be written now`, {
          cause: unwritable,
        })
      // A redirect is followed at once, but not twice in a row.
      if (hint !== undefined && hint !== host) continue
      hint = undefined
      await this.#pause(attempt, endsMs)
      if (signal?.aborted) throw signal.reason
    }
    const what = absentSinceMs === undefined ? `within ${waitMs} ms` : 'and no host that serves it is known'
    throw new AccountsUnavailable(`no answer for account ${request.accountId} ${what}`, { cause })
  }

  async #pause(attempt: number, endsMs: number): Promise<void> {
    const ms = backoffMs(attempt, { ...retry, fraction: this.#randomness.fraction() })
    await pause(this.#timers, Math.max(1, Math.min(ms, endsMs - this.#clock.monotonic())))
  }

  /** A silent host is awaited only until another one replaces it. */
  #askWhileThere(
    host: string,
    routed: RoutedRequest,
    wait: { timeoutMs: number; patienceMs: number | undefined; signal: AbortSignal | undefined },
  ): Promise<Attempt> {
    return this.#waiting === undefined
      ? this.#ask(host, routed, wait)
      : this.#askUntilMoved(host, routed, { ...wait, waitingNow: this.#waiting })
  }

  async #askUntilMoved(
    host: string,
    routed: RoutedRequest,
    wait: {
      timeoutMs: number
      patienceMs: number | undefined
      signal: AbortSignal | undefined
      waitingNow: Set<WaitingCall>
    },
  ): Promise<Attempt> {
    const { timeoutMs, patienceMs, signal, waitingNow } = wait
    const moved = new AbortController()
    const waiting = { account: routed.request.accountId, host, moved }
    const either = signal === undefined ? moved.signal : AbortSignal.any([signal, moved.signal])
    waitingNow.add(waiting)
    const cancelSuspicion = this.#timers.after(suspectAfterMs, () => this.#onSilent(host))
    const cancelPatience =
      patienceMs === undefined ? () => {} : this.#timers.after(patienceMs, () => moved.abort())
    try {
      return await this.#ask(host, routed, { timeoutMs, signal: either })
    } catch (error) {
      if (moved.signal.aborted && signal?.aborted !== true) return { kind: 'again', cause: error }
      throw error
    } finally {
      cancelSuspicion()
      cancelPatience()
      waitingNow.delete(waiting)
    }
  }

  async #ask(
    host: string,
    routed: RoutedRequest,
    wait: { timeoutMs: number; signal: AbortSignal | undefined },
  ): Promise<Attempt> {
    let reply: AccountReply
    try {
      reply =
        host === this.#local?.hostId
          ? await this.#askHere(this.#local, routed, wait)
          : AccountReply.decode(await this.#send(host, encodedOf(routed), wait))
    } catch (error) {
      const code = (error as { code?: string }).code
      if (code === 'BUSY')
        throw new AccountsUnavailable('too many requests under way', { overloaded: true, cause: error })
      if (code === 'NO_RESPONDERS') this.#onSilent(host)
      if (code === 'NO_RESPONDERS' || code === 'TIMEOUT') return { kind: 'again', cause: error }
      if (code === 'CLOSED') throw new AccountsUnavailable('the bus is closed', { cause: error })
      throw error
    }
    const { result } = reply
    if (result?.$case === 'moved') return { kind: 'again', host: result.value.host || undefined }
    if (result?.$case !== 'unavailable') return { kind: 'answer', reply }
    if (result.value.damaged)
      throw new AccountsUnavailable(`account ${routed.request.accountId} is damaged, and is only read`)
    if (!result.value.overloaded) return { kind: 'again' }
    throw new AccountsUnavailable('the mailbox is full', { overloaded: true })
  }

  /** @throws BusFault `TIMEOUT`, `CANCELLED`, like the bus. */
  #askHere(
    local: LocalHost,
    routed: RoutedRequest,
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal | undefined },
  ): Promise<AccountReply> {
    return new Promise((resolve, reject) => {
      const end = () => {
        cancelTimer()
        signal?.removeEventListener('abort', onAbort)
      }
      const onAbort = () => {
        end()
        const cause = signal?.reason
        reject(new BusFault('CANCELLED', 'the request to an account was cancelled', { cause }))
      }
      const cancelTimer = this.#timers.after(timeoutMs, () => {
        end()
        reject(new BusFault('TIMEOUT', `no answer within ${timeoutMs} ms`))
      })
      if (signal?.aborted) return onAbort()
      signal?.addEventListener('abort', onAbort, { once: true })
      local.take(asOverBus(routed)).then((reply) => {
        end()
        resolve(reply)
      }, reject)
    })
  }

  async #send(
    host: string,
    message: Uint8Array,
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal | undefined },
  ): Promise<Uint8Array> {
    const options = signal === undefined ? { timeoutMs } : { timeoutMs, signal }
    if (message.length <= maxMessageBytes) return this.#bus.request(subjectOf(host), message, options)
    let answer: Uint8Array = new Uint8Array()
    for (const part of cutRequest(message, this.#randomness.bytes(16))) {
      answer = await this.#bus.request(partSubjectOf(host), part, options)
    }
    return answer
  }
}

/**
 * Makes malformed text well-formed, as encoding and decoding for the bus does. All other requests
 * are unchanged by the codec, so they are not encoded. Only an operation has text of clients:
 * everything around it is ids, names of hosts and bytes.
 */
function asOverBus(routed: RoutedRequest): AccountRequest {
  const { operation } = routed.request
  if (operation === undefined || isWellFormed(operation.value)) return routed.request
  return AccountRequest.decode(encodedOf(routed))
}

function isWellFormed(part: object): boolean {
  // No list of the values, and no call for each of them: this is done for each request.
  for (const key in part) {
    const value: unknown = part[key as keyof typeof part]
    if (typeof value === 'string') {
      if (!value.isWellFormed()) return false
    } else if (typeof value === 'object' && value !== null && !(value instanceof Uint8Array)) {
      if (!isWellFormed(value)) return false
    }
  }
  return true
}

function encodedOf(routed: RoutedRequest): Uint8Array {
  routed.encoded ??= AccountRequest.encode(routed.request).finish()
  return routed.encoded
}
