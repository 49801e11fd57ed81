/**
 * The fastify instance of all hosts. Every response is the envelope: routes, unknown routes, wrong
 * methods, unreadable bodies, malformed URLs, malformed HTTP on the socket, exceptions.
 */
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import {
  type Clock,
  forClientRequest,
  isClientRequest,
  isFramed,
  RefusalError,
  systemClock,
} from '@holdfast/kernel'
import fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import { finishHeaders, preflightHeaders, sharedHeaders } from './answers/headers.ts'
import { RawAnswers, refusalText } from './answers/raw-answers.ts'
import { httpCodeOf, refusalOf } from './answers/refusals.ts'
import {
  type ConnectionLimits,
  Connections,
  type IdleTimes,
  type RequestHandler,
} from './connections/connections.ts'
import type { HostBudgets, HostParts, HttpHostOptions, RateLimits } from './contract.ts'
import { pathOf } from './log.ts'
import { RequestMetrics } from './metrics/request-metrics.ts'
import { traceRequests } from './metrics/request-traces.ts'
import { RareWarnings } from './rare-warnings.ts'
import { clientAddress, networkOf, proxyTrust } from './rate-limits/addresses.ts'
import { PiecewiseRequest } from './reading/piecewise-request.ts'
import { readBody } from './reading/read-body.ts'
import { SmallPiecesLane } from './reading/small-pieces-lane.ts'
import { answerUnread } from './reading/unread-answer.ts'
import { bodyBytesMaxDefault, parseBody, parseForm } from './requests/bodies.ts'
import { KnownPaths } from './requests/known-paths.ts'
import { hasSoundHost, originForm } from './requests/request-heads.ts'
import { LoopTurns } from './turns/loop-turns.ts'

/** Slow headers are cut off after this time. */
const headersTimeoutMs = 20_000
/**
 * For proxies: longer than the default of every proxy that `infra/deploy/README.md` names (Caddy:
 * 120 s).
 */
export const defaultIdle: IdleTimes = {
  silentMs: headersTimeoutMs,
  // A proxy of the own network needs two round trips.
  handshakeMs: 5_000,
  keptMs: 65_000,
  proxyMs: 150_000,
}
const connectionsCheckMs = 5_000
/** Used where the descriptors of the process were not divided. */
const defaultConnections: ConnectionLimits = { max: 1_024, perNetworkMax: 1_024 }
/** The longest path part: an encoded name of 255 code points. */
const paramLengthMax = 4_096

/** Of a host that shares nothing. */
export const ownParts: HostParts = {
  connections: undefined,
  tls: undefined,
  clock: undefined,
  lane: undefined,
  tracer: undefined,
  bodyBytesMax: undefined,
  requestTimeoutMs: undefined,
  idleTimeoutMs: undefined,
  idle: undefined,
}

/** Of a host that shares what the process has. */
export function sharedParts(budgets: HostBudgets | undefined): HostParts {
  if (budgets === undefined) return ownParts
  const { connections, tls, lane, tracer } = budgets
  return { ...ownParts, connections, tls, lane, tracer }
}

export function createHttpHost(options: HttpHostOptions): FastifyInstance {
  const isTrusted = proxyTrust(options.trustProxy)
  const idle = options.idle ?? defaultIdle
  const timeouts = {
    requestTimeout: options.requestTimeoutMs ?? (options.name === 'upload' ? 0 : 60_000),
    connectionTimeout: options.idleTimeoutMs ?? 120_000,
    keepAliveTimeout: idle.keptMs,
  }
  const bodyLimit = options.bodyBytesMax ?? bodyBytesMaxDefault
  let connections: Connections | undefined
  const metrics = new RequestMetrics(options.metrics, options.name)
  const rawAnswers = new RawAnswers({ cors: options.cors, metrics })
  const app = fastify({
    loggerInstance: options.log.child({ host: options.name }) as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    // No logger per request: log lines name the request's id.
    childLoggerFactory: (logger) => logger,
    trustProxy: options.trustProxy === false ? false : isTrusted,
    bodyLimit,
    ...timeouts,
    serverFactory: (handle) => serverOf(handle as RequestHandler),
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: {
      ignoreTrailingSlash: true,
      // Clients write `/contents/createfolder` and `/uploadFile`. Parameters keep their case.
      caseSensitive: false,
      maxParamLength: paramLengthMax,
      querystringParser: (text) => parseForm(text) as Record<string, string>,
    },
    requestIdHeader: false,
    genReqId: (raw) => requestIdOf(raw),
    frameworkErrors: (_error, request, reply) =>
      rawAnswers.refuse(reply.raw, new RefusalError('error-notFound'), request.id),
    clientErrorHandler: (error, socket) => {
      // The client has gone in the middle of a request.
      if (connections === undefined || error.code === 'HPE_INVALID_EOF_STATE') socket.destroy()
      else
        connections.refuseUnreadable(socket as Socket, () => rawAnswers.refuseSocket(error, socket as Socket))
    },
  })
  app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) =>
    rawAnswers.refuseExpectation(request, response),
  )

  // Operations check parameters in the contract's order; schemas of routes serve the OpenAPI
  // document.
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => (data) => JSON.stringify(data))
  readBodies(app, {
    bytesMax: bodyLimit,
    rateLimits: options.rateLimits,
    clock: options.clock ?? systemClock,
  })
  decorateRequests(app, { metrics, options })
  enterRequests(app, { options, connections: () => connections })
  nameRequests(app)
  if (options.tracer !== undefined) traceRequests(app, { tracer: options.tracer, host: options.name })
  app.addHook('onSend', (request, reply, payload, done) => {
    finishHeaders(request, reply)
    done(null, payload)
  })
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply))
  app.setNotFoundHandler(() => {
    throw new RefusalError('error-notFound')
  })
  metrics.watch(app)
  logAnswers(app, options)
  app.addHook('preClose', async () => connections?.close())
  return app

  function serverOf(handle: RequestHandler) {
    const made = createConnections(options, {
      isTrusted,
      idle,
      handle: (request, response) => {
        const target = originForm(request)
        if (!isFramed(request) || target === undefined) return rawAnswers.refuseHead(response)
        request.url = target
        handle(request, response)
      },
    })
    connections = made
    return createHostServer(made, timeouts)
  }
}

/**
 * Runs handlers as parts of their request, whose id is then sent with each question to another
 * process. After the body, because the connection's events arrive later and do not keep it.
 */
function nameRequests(app: FastifyInstance): void {
  const named = new Set<string>()
  app.addHook('onRoute', ({ url, config }) => {
    if (config?.namesItself === true) named.add(url)
  })
  app.addHook('preHandler', (request, _reply, done) => {
    if (request.routeUrl !== null && named.has(request.routeUrl)) done()
    else forClientRequest(request.id, done)
  })
}

/** The fields of requests that hooks and operations use. */
function decorateRequests(
  app: FastifyInstance,
  { metrics, options }: { metrics: RequestMetrics; options: HttpHostOptions },
): void {
  const shared = sharedHeaders(options.cors)
  const warnings = new RareWarnings(options.clock ?? systemClock)
  app.decorateRequest('routeUrl', null)
  app.decorateRequest('address', '')
  app.decorateRequest('rateLimit', null)
  app.decorateRequest('refusedAs', null)
  app.decorateRequest('hostMetrics', { getter: () => metrics })
  app.decorateRequest('sharedHeaders', { getter: () => shared })
  app.decorateRequest('rareWarnings', { getter: () => warnings })
}

function createConnections(
  options: HttpHostOptions,
  {
    isTrusted,
    idle,
    handle,
  }: { isTrusted: ReturnType<typeof proxyTrust>; idle: IdleTimes; handle: RequestHandler },
): Connections {
  const warnings = new RareWarnings(options.clock ?? systemClock)
  return new Connections({
    host: options.name,
    limits: options.connections ?? defaultConnections,
    isProxy: (address) => isTrusted(address, 0),
    refusalText,
    handle,
    metrics: options.metrics,
    clock: options.clock ?? systemClock,
    lane: options.lane ?? new SmallPiecesLane(options.clock),
    idle,
    tls: options.tls,
    onHandshakeFault: (fault, error, address) => {
      const others = warnings.due(fault)
      if (others === undefined) return
      const line = { host: options.name, reason: error.message, address, others }
      options.log.warn(
        line,
        'a connection without the TLS or the certificate that this host asks for was closed',
      )
    },
  })
}

function createHostServer(
  connections: Connections,
  timeouts: { requestTimeout: number; connectionTimeout: number; keepAliveTimeout: number },
): Server {
  const server = createServer(
    {
      connectionsCheckingInterval: connectionsCheckMs,
      requireHostHeader: false,
      IncomingMessage: PiecewiseRequest,
    },
    (request, response) => connections.handle(request, response),
  )
  server.on('connect', (_request, socket) => connections.refuseTunnel(socket as Socket))
  server.requestTimeout = timeouts.requestTimeout
  server.keepAliveTimeout = timeouts.keepAliveTimeout
  server.headersTimeout = headersTimeoutMs
  server.setTimeout(timeouts.connectionTimeout)
  connections.watch(server)
  return server
}

/** The size of a usual body, also of a long report in a form. */
const freeBodyBytes = 12 * 1024
/**
 * A larger body counts as one more request for each of these, because checking it takes as long.
 */
const bodyBytesPerRequest = 2 * 1024

function chargeOf(bodyBytes: number): number {
  return bodyBytes < freeBodyBytes ? 0 : Math.floor(bodyBytes / bodyBytesPerRequest)
}

/** Such bodies take milliseconds to check, so several of one turn of the loop wait. */
const largeBodyBytes = 8 * 1024

function readBodies(
  app: FastifyInstance,
  { bytesMax, rateLimits, clock }: { bytesMax: number; rateLimits: RateLimits; clock: Clock },
): void {
  const turns = new LoopTurns(clock)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (request, payload, done) =>
    readBody(
      payload as PiecewiseRequest,
      { bytesMax, announced: request.headers['content-length'] },
      (error, body) => {
        if (body === undefined) return done(error ?? new RefusalError('error-body'))
        const { endpoint } = request.routeOptions.config
        if (endpoint !== undefined) rateLimits.charge(request, endpoint, chargeOf(body.length))
        const parse = () => {
          try {
            done(null, parseBody(request.headers['content-type'], body))
          } catch (error) {
            done(error as Error)
          }
        }
        if (body.length < largeBodyBytes) parse()
        else turns.take(networkOf(clientAddress(request)), parse)
      },
    ),
  )
}

/** Refuses what reaches no operation: banned clients, addresses without room, unknown paths. */
function enterRequests(
  app: FastifyInstance,
  { options, connections }: { options: HttpHostOptions; connections: () => Connections | undefined },
): void {
  const paths = new KnownPaths()
  app.addHook('onRoute', (route) => paths.add(route.method, route.url))
  // No promise where nothing must be awaited, which is nearly every request.
  app.addHook('onRequest', (request, reply, done) => {
    // Each access makes an object.
    const { url, config } = request.routeOptions
    request.routeUrl = url ?? null
    if (!hasSoundHost(request.raw)) throw new RefusalError('error-host')
    if (options.isBanned?.(clientAddress(request)) === true) throw new RefusalError('error-forbidden')
    if (connections()?.takeClient(request) === false)
      throw new RefusalError('error-rateLimit', { retryAfter: 1 })
    if (options.cors && request.method === 'OPTIONS') {
      void reply.code(204).headers(preflightHeaders).send()
      return
    }
    const allowed = paths.allowed(request, url)
    const known = !request.is404 && allowed === undefined
    const endpoint = known ? config.endpoint : 'unknown'
    const taken = endpoint === undefined ? undefined : options.rateLimits.takeAddress(request, endpoint)
    if (known && taken === undefined) {
      normaliseContentType(request.raw)
      done()
      return
    }
    enter(request, reply, { taken, known, allowed }).then(() => done(), done)
  })

  async function enter(
    request: FastifyRequest,
    reply: FastifyReply,
    {
      taken,
      known,
      allowed,
    }: { taken: Promise<void> | undefined; known: boolean; allowed: string[] | undefined },
  ): Promise<void> {
    await taken
    if (allowed !== undefined && allowed.length > 0) {
      reply.header('allow', allowed.join(', '))
      throw new RefusalError('error-method')
    }
    if (!known) throw new RefusalError('error-notFound')
    normaliseContentType(request.raw)
  }
}

/** The body of every successful answer. */
export function ok<T>(data: T): { status: 'ok'; data: T }
export function ok<T, M>(data: T, metadata: M): { status: 'ok'; data: T; metadata: M }
export function ok(data: unknown, metadata?: unknown) {
  return metadata === undefined ? { status: 'ok', data } : { status: 'ok', data, metadata }
}

/**
 * Notes for the metrics what the request is refused with, and logs a fault of the service. An
 * unreachable part is one line without a stack. A full disk is one line in ten seconds, because all
 * are equal; `others` says how many were refused since the line before.
 */
export function logFailure(error: unknown, request: FastifyRequest, { status }: RefusalError): void {
  request.refusedAs = status
  if (httpCodeOf(status) < 500) return
  const details = { requestId: request.id, path: pathOf(request.url) }
  if (status === 'error-storageFull') {
    const others = request.rareWarnings.due(status)
    const line = { reason: (error as Error).message, others, ...details }
    request.log[others === undefined ? 'debug' : 'warn'](line, 'refused: the storage is full')
  } else if (status === 'error-unavailable')
    request.log.warn({ reason: (error as Error).message, ...details }, 'refused for now')
  else request.log.error({ err: error, ...details }, 'request failed')
}

function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply) {
  const refusal = refusalOf(error)
  const code = httpCodeOf(refusal.status)
  logFailure(error, request, refusal)
  if (refusal.status === 'error-bodySize' && !request.raw.complete)
    return answerUnread(request, reply.header('cache-control', 'no-store'), { refusal, isCostly: false })
  if (refusal.retryAfter !== undefined) reply.header('retry-after', String(refusal.retryAfter))
  return reply
    .code(code)
    .removeHeader('content-encoding')
    .header('cache-control', 'no-store')
    .type('application/json; charset=utf-8')
    .send(JSON.stringify({ status: refusal.status }))
}

/** An incoming id when it is safe in a header and a log line; otherwise a new one. */
function requestIdOf(raw: IncomingMessage): string {
  const sent = raw.headers['x-request-id']
  return isClientRequest(sent) ? sent : randomUUID()
}

/** Fastify would refuse a Content-Type it cannot parse before it sees that the body is empty. */
function normaliseContentType(raw: IncomingMessage) {
  const sent = raw.headers['content-type']
  if (sent === undefined || /^\s*[\w!#$&^.+-]+\/[\w!#$&^.+-]+\s*(;|$)/.test(sent)) return
  raw.headers['content-type'] = 'application/unreadable'
}

function logAnswers(app: FastifyInstance, { log }: HttpHostOptions) {
  app.addHook('onResponse', (request, reply, done) => {
    done()
    if (!log.isLevelEnabled('debug')) return
    request.log.debug(
      {
        requestId: request.id,
        method: request.method,
        path: pathOf(request.url),
        code: reply.statusCode,
        seconds: reply.elapsedTime / 1000,
        address: clientAddress(request),
      },
      'answered',
    )
  })
}
