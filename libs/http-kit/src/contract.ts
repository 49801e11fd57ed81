/**
 * What all HTTP hosts have in common: envelope, bodies, request ids, CORS, client addresses,
 * limits, metrics, log.
 */
import type { Clock, Tracer } from '@holdfast/kernel'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { AnswerBudget } from './answers/answer-budget.ts'
import type { ConnectionLimits, IdleTimes } from './connections/connections.ts'
import type { ListenerTls } from './connections/handshakes.ts'
import type { RequestMetrics } from './metrics/request-metrics.ts'
import type { RareWarnings } from './rare-warnings.ts'
import type { TrustProxy } from './rate-limits/addresses.ts'
import type { PiecesLane } from './reading/small-pieces-lane.ts'

export interface HttpHostOptions extends HostParts {
  name: 'api' | 'upload' | 'download' | 'admin'
  log: Logger
  metrics: Registry
  /** Addresses, CIDRs or a hop count of proxies whose X-Forwarded-For counts; false: none. */
  trustProxy: TrustProxy
  cors: boolean
  /** Shared by all hosts of a process. */
  rateLimits: RateLimits
  /** Whether the operator blocks this client (403). Undefined: no client is blocked. */
  isBanned: ((address: string) => boolean) | undefined
}

/** What a public host says about its process at `GET /health`. */
export interface TellsReadiness {
  /** Cheap: strangers may ask as often as rate limits allow. Never rejects. */
  isReady(): Promise<boolean>
}

/** What a host has by itself where it is undefined (`ownParts`). */
export interface HostParts {
  /** Its connections; undefined: `defaultConnections`. */
  connections: ConnectionLimits | undefined
  /** Undefined: requests come without TLS. */
  tls: ListenerTls | undefined
  /** The clock of the host's connections. */
  clock: Clock | undefined
  /** Where bodies in small pieces wait for each other. Undefined: a lane for this host only. */
  lane: PiecesLane | undefined
  /** Undefined: no request is traced. */
  tracer: Tracer | undefined
  /** Longest JSON or form body, bytes. */
  bodyBytesMax: number | undefined
  /**
   * Longest time from the first byte of a request to the last of its body, ms; 0: none (uploads).
   * Undefined: 60,000, 0 for `upload`.
   */
  requestTimeoutMs: number | undefined
  /** A request without any transfer for this long is cut off, ms. Undefined: 120,000. */
  idleTimeoutMs: number | undefined
  /** Times of connections without a request. Undefined: `defaultIdle`. */
  idle: IdleTimes | undefined
}

/** What the public hosts of a process share, and the bounds of each of them. */
export interface HostBudgets {
  /** For each host. */
  connections: ConnectionLimits
  /** Of each host. Undefined: requests come without TLS. */
  tls: ListenerTls | undefined
  /** Shared by all hosts. */
  answers: AnswerBudget
  /** Shared by all hosts. */
  lane: PiecesLane
  /** Undefined: no request is traced. */
  tracer: Tracer | undefined
}

/**
 * Makes a fastify instance with all of these; the caller adds routes and listens.
 *
 * A route with `config: { endpoint }` draws on its address' budget before the body is read.
 * Handlers answer with `ok(data)` and throw `RefusalError`; any other exception is
 * `error-internal`, or `error-unavailable` when it is a Fault of that category.
 */
export type CreateHttpHost = (options: HttpHostOptions) => FastifyInstance

export type GuessKind = 'token' | 'code' | 'password'

/** A running guess. The part that began it ends it once. */
export interface Guess {
  /** @param outcome.wrong it counts; otherwise it is returned to the budget. */
  end(outcome: { wrong: boolean }): void
}

/**
 * Budgets per endpoint, per address (IPv6 by /64) and per account, bans, and budgets of guesses.
 * Off: every method accepts.
 */
export interface RateLimits {
  /**
   * Draws on the address' budget of the endpoint and sets the RateLimit headers. Undefined:
   * accepted without a wait.
   * @throws RefusalError error-rateLimit, by the promise
   */
  takeAddress(request: FastifyRequest, endpoint: string): Promise<void> | undefined
  /**
   * Draws further requests of the address' budget of the endpoint, for a body or an answer larger
   * than most. It refuses nothing now: the next request is refused.
   */
  charge(request: FastifyRequest, endpoint: string, requests: number): void
  /**
   * Returns what was drawn at this time on the address' budget of the endpoint and not used. Past
   * windows do not change.
   */
  refundAddress(request: FastifyRequest, endpoint: string, drawnMs: number): void
  /**
   * As `takeAddress`, for the account, once the token was accepted.
   * @throws RefusalError error-rateLimit
   */
  takeAccount(request: FastifyRequest, endpoint: string, accountId: string): Promise<void>
  /**
   * Called before a token, a share code or a password is checked. Wrong and running guesses
   * together never exceed the address' budget: when only running ones are in the way, it waits for
   * one of them to end. `RequestGuesses` ends each.
   * @throws RefusalError error-rateLimit when that budget is spent, too many wait, or it waited for
   *   10 s
   */
  beginGuess(request: FastifyRequest, kind: GuessKind): Promise<Guess>
  /**
   * Names the client's network to accounts, which take turns by it, with 16 characters. It is not a
   * secret: anyone who knows the address can compute it. Undefined: off.
   */
  networkKey(request: FastifyRequest): string | undefined
  /** The state of a limiter is bounded; this frees its timers. */
  close(): void
}

/** The content of the RateLimit headers of an answer. */
export interface RateLimitShown {
  policy: string
  quota: number
  windowSeconds: number
  remaining: number
  resetSeconds: number
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Name of the budget this route draws on. */
    endpoint?: string
    /**
     * The handler calls `forClientRequest` where it may ask another process. For routes that seldom
     * do: otherwise each request pays for it (`bench/NOTES-downloads.md`).
     */
    namesItself?: boolean
  }
  interface FastifyRequest {
    /** The pattern of its route; null: an unknown path. */
    routeUrl: string | null
    /** What `clientAddress` found; empty before. */
    address: string
    rateLimit: RateLimitShown | null
    /** The status that it was refused with, for metrics. */
    refusedAs: string | null
    readonly hostMetrics: RequestMetrics
    /** Headers of all answers of its host. */
    readonly sharedHeaders: Readonly<Record<string, string>>
    /** Shared by its host's requests. */
    readonly rareWarnings: RareWarnings
  }
}
