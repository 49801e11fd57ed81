/**
 * The bus within one process: embedded mode uses it, and tests run clusters on it.
 *
 * It keeps every property of a bus between machines: messages are copied in both directions,
 * replies travel in numbered parts of bounded size, handlers never run on the caller's stack, a
 * handler that fails leaves its request without an answer. Nothing is lost, repeated or delayed
 * here.
 */
import type { Subscription } from '@holdfast/kernel'
import { type Bus, maxMessageBytes } from './bus.ts'
import { BusFault } from './errors.ts'
import { ReplyJoiner, splitReply } from './parts.ts'

/**
 * Requests served at one time over all participants; well above what all mailboxes of a process
 * admit.
 */
export const requestsInFlightMax = 16_384

/** The longest delay of a timer; longer timeouts are cut to it (24 days). */
export const timerMaxMs = 2 ** 31 - 1

type RequestHandler = (message: Uint8Array) => Promise<Uint8Array>
type MessageHandler = (message: Uint8Array) => void

export interface MemoryBusOptions {
  /** Called with what a handler threw, for the log: its caller only sees a `TIMEOUT`. */
  onHandlerError?: (failure: { subject: string; error: unknown }) => void
}

export class MemoryBus implements Bus {
  readonly #exchange: Exchange
  readonly #onHandlerError: NonNullable<MemoryBusOptions['onHandlerError']>
  readonly #subscriptions = new Set<Subscription>()
  readonly #servings = new Set<Subscription>()
  readonly #underWay = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  /** A separate exchange with this participant alone. */
  constructor(options: MemoryBusOptions = {}, exchange: Exchange = new Exchange()) {
    this.#exchange = exchange
    this.#onHandlerError = options.onHandlerError ?? (() => {})
  }

  /** Another participant on the same exchange, like another process; it closes separately. */
  connect(options: MemoryBusOptions = {}): MemoryBus {
    return new MemoryBus(options, this.#exchange)
  }

  async request(
    subject: string,
    message: Uint8Array,
    { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<Uint8Array> {
    assertFits(message)
    this.#assertOpen()
    if (signal?.aborted) throw cancellationFault(subject, signal)
    const serving = this.#exchange.servingOf(subject)
    if (serving === undefined) throw new BusFault('NO_RESPONDERS', `no process serves ${subject}`)
    if (this.#exchange.inFlight >= requestsInFlightMax) {
      throw new BusFault('BUSY', `${requestsInFlightMax} requests are under way, none was sent to ${subject}`)
    }
    const parts = serving.take(copyOf(message))
    return this.#track(answerInTime(parts, { subject, timeoutMs, signal }))
  }

  serve(subject: string, handler: RequestHandler): Subscription {
    this.#assertOpen()
    const take = (message: Uint8Array) => this.#track(this.#handle(subject, handler, message))
    const withdraw = this.#exchange.addServing(subject, { take })
    return kept(this.#servings, withdraw)
  }

  async #handle(
    subject: string,
    handler: RequestHandler,
    message: Uint8Array,
  ): Promise<Uint8Array[] | undefined> {
    this.#exchange.inFlight++
    try {
      await Promise.resolve()
      return splitReply(await handler(message))
    } catch (error) {
      this.#onHandlerError({ subject, error })
      return undefined
    } finally {
      this.#exchange.inFlight--
    }
  }

  publish(subject: string, message: Uint8Array): void {
    assertFits(message)
    if (this.#closing !== undefined) return
    for (const hear of this.#exchange.listenersOf(subject)) hear(copyOf(message))
  }

  subscribe(subject: string, handler: MessageHandler): Subscription {
    this.#assertOpen()
    let open = true
    const hear = (message: Uint8Array) =>
      queueMicrotask(() => {
        if (open) this.#hear(subject, handler, message)
      })
    const withdraw = this.#exchange.addListener(subject, hear)
    return kept(this.#subscriptions, () => {
      open = false
      withdraw()
    })
  }

  #hear(subject: string, handler: MessageHandler, message: Uint8Array): void {
    try {
      handler(message)
    } catch (error) {
      this.#onHandlerError({ subject, error })
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#drain()
    return this.#closing
  }

  async #drain(): Promise<void> {
    for (const serving of [...this.#servings]) serving.close()
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay)
    for (const subscription of [...this.#subscriptions]) subscription.close()
  }

  #track<T>(work: Promise<T>): Promise<T> {
    this.#underWay.add(work)
    const done = () => this.#underWay.delete(work)
    work.then(done, done)
    return work
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new BusFault('CLOSED', 'the bus is closed')
  }
}

interface SubjectServer {
  /** Resolves to the parts of the reply, or to undefined when the handler failed. */
  take(message: Uint8Array): Promise<Uint8Array[] | undefined>
}

/** The servers and subscribers of all participants of one bus. */
class Exchange {
  readonly #servings = new Map<string, SubjectServer[]>()
  readonly #listeners = new Map<string, Set<MessageHandler>>()
  inFlight = 0

  addServing(subject: string, serving: SubjectServer): () => void {
    const servings = [...(this.#servings.get(subject) ?? []), serving]
    this.#servings.set(subject, servings)
    return () => {
      const left = (this.#servings.get(subject) ?? []).filter((other) => other !== serving)
      if (left.length > 0) this.#servings.set(subject, left)
      else this.#servings.delete(subject)
    }
  }

  /** One of the servers of the subject, in turn. */
  servingOf(subject: string): SubjectServer | undefined {
    const servings = this.#servings.get(subject)
    const first = servings?.shift()
    if (first !== undefined) servings?.push(first)
    return first
  }

  addListener(subject: string, hear: MessageHandler): () => void {
    const listeners = this.#listeners.get(subject) ?? new Set()
    this.#listeners.set(subject, listeners.add(hear))
    return () => {
      listeners.delete(hear)
      if (listeners.size === 0 && this.#listeners.get(subject) === listeners) this.#listeners.delete(subject)
    }
  }

  listenersOf(subject: string): Iterable<MessageHandler> {
    const heard = [...(this.#listeners.get(subject) ?? [])]
    for (let at = subject.lastIndexOf('.'); at >= 0; at = subject.lastIndexOf('.', at - 1))
      heard.push(...(this.#listeners.get(`${subject.slice(0, at)}.>`) ?? []))
    return heard
  }
}

/**
 * The joined answer, unless time or the signal ends the wait first; the handler runs on either way.
 */
function answerInTime(
  parts: Promise<Uint8Array[] | undefined>,
  wait: { subject: string; timeoutMs: number; signal: AbortSignal | undefined },
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer)
      wait.signal?.removeEventListener('abort', onAbort)
    }
    const onAbort = () => {
      end()
      reject(cancellationFault(wait.subject, wait.signal))
    }
    const onTimeout = () => {
      end()
      reject(new BusFault('TIMEOUT', `no answer from ${wait.subject} within ${wait.timeoutMs} ms`))
    }
    const timer = setTimeout(onTimeout, Math.min(Math.max(wait.timeoutMs, 0), timerMaxMs))
    wait.signal?.addEventListener('abort', onAbort, { once: true })
    parts.then((arrived) => {
      const answer = arrived && joinParts(arrived)
      if (answer === undefined) return
      end()
      resolve(answer)
    }, reject)
  })
}

function joinParts(parts: Uint8Array[]): Uint8Array | undefined {
  const joiner = new ReplyJoiner()
  let answer: Uint8Array | undefined
  for (const part of parts) answer = joiner.add(part) ?? answer
  return answer
}

function kept(among: Set<Subscription>, withdraw: () => void): Subscription {
  const subscription = {
    close() {
      among.delete(subscription)
      withdraw()
    },
  }
  among.add(subscription)
  return subscription
}

function assertFits(message: Uint8Array): void {
  if (message.length <= maxMessageBytes) return
  throw new BusFault('TOO_LARGE', `a message of ${message.length} bytes is beyond ${maxMessageBytes}`)
}

/** A copy with its own memory, as from a socket. */
function copyOf(message: Uint8Array): Uint8Array {
  return Buffer.from(message)
}

function cancellationFault(subject: string, signal: AbortSignal | undefined): BusFault {
  return new BusFault('CANCELLED', `the request to ${subject} was cancelled`, { cause: signal?.reason })
}
