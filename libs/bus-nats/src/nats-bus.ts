/**
 * The bus over NATS core: at most once, one cluster per region, gateways between them.
 *
 * A request carries the caller's own inbox as reply subject. The answer comes in numbered parts, so
 * that a long listing needs no large message. Served subjects have the prefix `ask.`, apart from
 * published ones: so the server answers at once (status 503) for a subject without a responder,
 * even when it has subscribers. NATS never fails over a paused responder: the timeout is ours.
 *
 * The defaults of nats.js give up after ten reconnects and notice a dead link after minutes. This
 * client reconnects without limit and notices within `pingIntervalMs` × 2. While the link is down
 * requests fail at once as unavailable, like `NO_RESPONDERS`, instead of being buffered: a buffered
 * command would run after its caller has given up.
 */

import { setTimeout as delay } from 'node:timers/promises'
import {
  type Bus,
  BusFault,
  type BusFaultCode,
  maxMessageBytes,
  ReplyJoiner,
  type Subscription,
  splitReply,
  timerMaxMs,
} from '@holdfast/bus'
import { hostOf, isOfHost, type TlsContext } from '@holdfast/trust'
import {
  type ConnectionOptions,
  connect,
  createInbox,
  ErrorCode,
  Events,
  type Msg,
  type NatsConnection,
  type NatsError,
  type Subscription as NatsSubscription,
  type TlsOptions,
} from 'nats'

export interface NatsBusOptions {
  /** `host:port` of the region's servers. */
  servers: string[]
  /** Shown by the server's monitoring. */
  name: string
  /** Called when the link goes down and comes up. */
  onLink: (up: boolean) => void
  /** Called with what a handler threw, for the log. */
  onHandlerError: (failure: { subject: string; error: unknown }) => void
  /** Called at the start with the reason why no server can be used yet, when the reason changes. */
  onWaiting: (error: unknown) => void
  /** Asked at every attempt to connect: it may change. Undefined: the servers need none. */
  credentials: (() => NatsLogin) | undefined
  /**
   * The authority of the servers' certificates, and the certificate that is shown to them.
   * Undefined: servers are not authenticated, and connections are unencrypted where the servers
   * offer no encryption.
   */
  tls: Pick<TlsContext, 'secureContext'> | undefined
}

interface NatsLogin {
  user: string
  password: string
}

/** Concurrent requests of one process; each holds its parts in memory. */
const inFlightMax = 8192
/** Between pings; a link is dead after two unanswered pings. */
const pingIntervalMs = 5_000
/** Between attempts to reach a server at the start. */
const retryMs = 250
/** Servers of one subject share its requests; NATS prefers those of the own region. */
const queue = 'servers'

/** How requests of this process end, and the state of its link. */
export interface BusFigures {
  /** Counted since the start. */
  requests: Record<RequestEnd, number>
  /** Requests without an answer yet. */
  waiting: number
  /** How often the link broke. */
  linkLosses: number
}

export const requestEnds = ['answered', 'timeout', 'no responders', 'cancelled', 'busy'] as const
export type RequestEnd = (typeof requestEnds)[number]

interface PendingReply {
  joiner: ReplyJoiner
  resolve(bytes: Uint8Array): void
  reject(fault: BusFault): void
}

export class NatsBus implements Bus {
  readonly #connection: NatsConnection
  readonly #inbox = createInbox()
  readonly #waiting = new Map<string, PendingReply>()
  readonly #underWay = new Set<Promise<unknown>>()
  readonly #servings = new Set<NatsSubscription>()
  readonly #linkLost = Promise.withResolvers<void>()
  readonly #requests: Record<RequestEnd, number> = {
    answered: 0,
    timeout: 0,
    'no responders': 0,
    cancelled: 0,
    busy: 0,
  }
  #linkLosses = 0
  #next = 0
  #up = true
  #closing: Promise<void> | undefined

  readonly #onHandlerError: NatsBusOptions['onHandlerError']

  private constructor(connection: NatsConnection, options: NatsBusOptions) {
    this.#connection = connection
    this.#onHandlerError = options.onHandlerError
    connection.subscribe(`${this.#inbox}.*`, { callback: (error, message) => this.#answer(error, message) })
  }

  /**
   * Waits until a server is reachable.
   * @throws BusFault REFUSED when a server is reached and refuses the credentials.
   */
  static async connect(options: NatsBusOptions): Promise<NatsBus> {
    const { servers, name, credentials, tls } = options
    const link: ConnectionOptions = {
      servers,
      name,
      ...(credentials === undefined ? {} : { authenticator: () => authOf(credentials()) }),
      ...(tls === undefined ? {} : { tls: tlsOf(tls, servers) }),
    }
    await awaitAdmission(link, options)
    const connection = await connect({
      ...link,
      maxReconnectAttempts: -1,
      reconnectTimeWait: 100,
      reconnectJitter: 100,
      pingInterval: pingIntervalMs,
      maxPingOut: 2,
      waitOnFirstConnect: true,
      // A process whose credentials are revoked later reports it by its readiness; it reconnects
      // when the server accepts them again.
      ignoreAuthErrorAbort: true,
    })
    const bus = new NatsBus(connection, options)
    void bus.#watch(options.onLink)
    return bus
  }

  /** False while the link to the servers is down. */
  get up(): boolean {
    return this.#up && this.#closing === undefined
  }

  figures(): BusFigures {
    return {
      requests: { ...this.#requests },
      waiting: this.#waiting.size,
      linkLosses: this.#linkLosses,
    }
  }

  async request(
    subject: string,
    message: Uint8Array,
    options: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<Uint8Array> {
    assertFits(subject, message)
    this.#assertOpen()
    return this.#counted(async () => {
      if (options.signal?.aborted) throw new BusFault('CANCELLED', `${subject}: cancelled`)
      if (!this.#up) throw new BusFault('NO_RESPONDERS', `${subject}: no link to NATS`)
      if (this.#waiting.size >= inFlightMax)
        throw new BusFault('BUSY', `${subject}: ${inFlightMax} requests are waiting`)
      return this.#track(this.#ask(subject, message, options))
    })
  }

  async #counted<T>(work: () => Promise<T>): Promise<T> {
    try {
      const answer = await work()
      this.#requests.answered++
      return answer
    } catch (error) {
      const end = endOf((error as Partial<BusFault>).code)
      if (end !== undefined) this.#requests[end]++
      throw error
    }
  }

  async #ask(
    subject: string,
    message: Uint8Array,
    { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<Uint8Array> {
    const id = String(this.#next++)
    const answer = Promise.withResolvers<Uint8Array>()
    const refuse = (code: BusFaultCode, what: string) =>
      answer.reject(new BusFault(code, `${subject}: ${what}`))
    const late = () => refuse('TIMEOUT', `no answer within ${timeoutMs} ms`)
    const timer = setTimeout(late, Math.min(timeoutMs, timerMaxMs))
    const cancel = () => refuse('CANCELLED', 'cancelled')
    signal?.addEventListener('abort', cancel)
    this.#waiting.set(id, { joiner: new ReplyJoiner(), resolve: answer.resolve, reject: answer.reject })
    try {
      // The client keeps its input until it sends it, so it gets a copy.
      this.#connection.publish(requestSubjectOf(subject), Buffer.from(message), {
        reply: `${this.#inbox}.${id}`,
      })
      return await answer.promise
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', cancel)
      this.#waiting.delete(id)
    }
  }

  serve(subject: string, handler: (message: Uint8Array) => Promise<Uint8Array>): Subscription {
    this.#assertOpen()
    const serving = this.#connection.subscribe(requestSubjectOf(subject), {
      queue,
      callback: (error, message) => {
        if (error === null && message.reply) void this.#track(this.#handle(subject, message, handler))
      },
    })
    this.#servings.add(serving)
    return {
      close: () => {
        if (this.#servings.delete(serving)) serving.unsubscribe()
      },
    }
  }

  publish(subject: string, message: Uint8Array): void {
    assertFits(subject, message)
    if (this.up) this.#connection.publish(subject, Buffer.from(message))
  }

  /** @param subject may be a pattern of NATS: `members.>`. */
  subscribe(subject: string, handler: (message: Uint8Array) => void): Subscription {
    this.#assertOpen()
    let closed = false
    const subscription = this.#connection.subscribe(subject, {
      callback: (error, message) => {
        if (error !== null || closed) return
        try {
          handler(Buffer.from(message.data))
        } catch (error) {
          this.#onHandlerError({ subject, error })
        }
      },
    })
    return {
      close: () => {
        if (!closed) subscription.unsubscribe()
        closed = true
      },
    }
  }

  /**
   * Resolves when the server has processed everything sent before: earlier subscriptions are
   * active.
   */
  async flush(): Promise<void> {
    await this.#connection.flush()
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    for (const serving of this.#servings) serving.unsubscribe()
    this.#servings.clear()
    // Requests end at their own timeouts at the latest.
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay)
    if (this.#up) await Promise.race([this.#connection.drain(), this.#linkLost.promise])
    // A drain that loses its link ends without closing, and the client would then reconnect without
    // end.
    await this.#connection.close()
  }

  #track<T>(work: Promise<T>): Promise<T> {
    this.#underWay.add(work)
    const ended = () => this.#underWay.delete(work)
    work.then(ended, ended)
    return work
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new BusFault('CLOSED', 'the bus is closed')
  }

  async #handle(
    subject: string,
    message: Msg,
    handler: (message: Uint8Array) => Promise<Uint8Array>,
  ): Promise<void> {
    const reply = message.reply
    if (!reply) return
    let parts: Uint8Array[]
    try {
      parts = splitReply(await handler(Buffer.from(message.data)))
    } catch (error) {
      // By contract handlers answer errors themselves; the caller's own deadline covers this case.
      this.#onHandlerError({ subject, error })
      return
    }
    if (this.#connection.isClosed()) return
    for (const part of parts) this.#connection.publish(reply, part)
  }

  #answer(error: Error | null, message: Msg): void {
    if (error) return
    const waiting = this.#waiting.get(message.subject.slice(this.#inbox.length + 1))
    if (!waiting) return
    if (message.headers?.code === 503) {
      waiting.reject(new BusFault('NO_RESPONDERS', 'no process serves this subject'))
      return
    }
    // The bytes are in a buffer of the client; the joiner keeps views, so it gets its own copy.
    const whole = waiting.joiner.add(Buffer.from(message.data))
    if (whole) waiting.resolve(whole)
  }

  async #watch(onLink: NatsBusOptions['onLink']): Promise<void> {
    for await (const status of this.#connection.status()) {
      if (status.type === Events.Disconnect) this.#link(false, onLink)
      if (status.type === Events.Reconnect) this.#link(true, onLink)
    }
  }

  #link(up: boolean, onLink: NatsBusOptions['onLink']): void {
    this.#up = up
    onLink(up)
    if (up) return
    this.#linkLosses++
    if (this.#closing !== undefined) this.#linkLost.resolve()
    for (const waiting of this.#waiting.values())
      waiting.reject(new BusFault('TIMEOUT', 'the link to NATS broke before the answer came'))
  }
}

function authOf({ user, password }: NatsLogin) {
  return { user, pass: password }
}

/**
 * The client reads these at each attempt to connect. It forgets the address that it asked for where
 * that is no host name: a certificate of any of the servers is valid.
 */
function tlsOf(tls: Pick<TlsContext, 'secureContext'>, servers: readonly string[]): TlsOptions {
  return {
    get secureContext() {
      return tls.secureContext
    },
    checkServerIdentity: isOfHost(...servers.map(hostOf)),
  } as TlsOptions
}

/** A single connection attempt: the client itself would retry without end and not say why. */
async function awaitAdmission(link: ConnectionOptions, { onWaiting }: NatsBusOptions): Promise<void> {
  for (let reported: string | undefined; ; ) {
    try {
      const tried = await connect({ ...link, reconnect: false })
      return await tried.close()
    } catch (error) {
      const { code, message } = error as NatsError
      if (code === ErrorCode.AuthorizationViolation)
        throw new BusFault('REFUSED', `NATS at ${link.servers} does not take these credentials`, {
          cause: error,
        })
      if (message !== reported) onWaiting(error)
      reported = message
      await delay(retryMs)
    }
  }
}

/** Undefined: the event says nothing about the connection. */
function endOf(code: BusFaultCode | undefined): RequestEnd | undefined {
  switch (code) {
    case 'TIMEOUT':
      return 'timeout'
    case 'NO_RESPONDERS':
      return 'no responders'
    case 'CANCELLED':
      return 'cancelled'
    case 'BUSY':
      return 'busy'
    case 'TOO_LARGE':
    case 'CLOSED':
    case 'REFUSED':
    case undefined:
      return undefined
  }
}

function requestSubjectOf(subject: string): string {
  return `ask.${subject}`
}

function assertFits(subject: string, message: Uint8Array): void {
  if (message.length > maxMessageBytes)
    throw new BusFault('TOO_LARGE', `${subject}: ${message.length} bytes, at most ${maxMessageBytes}`)
}
