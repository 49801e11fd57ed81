/** The admin host of any process: health for orchestrators, metrics and calls for the operator. */
import {
  banMetrics,
  type ConnectionLimits,
  createHttpHost,
  guessing,
  type ListenerTls,
  ownParts,
  type RateLimits,
  RefusalError,
} from '@holdfast/http-kit'
import type { BlockLists, Reports, TransferLog } from '@holdfast/moderation'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { judge } from './access/guard.ts'
import { LocalCallers, type UidOf } from './access/local-caller.ts'
import { PageSessions } from './access/page-session.ts'
import { accountRoutes } from './accounts/accounts.ts'
import { AllAccounts } from './accounts/all-accounts.ts'
import { allAccountsRoutes } from './accounts/all-accounts-routes.ts'
import { contentRoutes } from './accounts/contents.ts'
import type { NewAccountDeps } from './accounts/new-account.ts'
import { healthRoutes } from './health/health.ts'
import type { Readiness } from './health/readiness.ts'
import { readinessMetrics } from './metrics/readiness-metrics.ts'
import { logCalls } from './moderation/logged-calls.ts'
import { moderationRoutes } from './moderation/moderation.ts'
import { reportRoutes } from './moderation/reports.ts'
import { transferRoutes } from './moderation/transfers.ts'
import { moderationPage } from './moderation-page/routes.ts'
import { type OperationDeps, operationRoutes } from './operations.ts'

export interface AdminDeps {
  log: Logger
  metrics: Registry
  rateLimits: RateLimits
  readiness: Readiness
  /** Admits callers from other machines; undefined: they are refused. Read at each call. */
  adminToken: string | undefined
  /** Admits them to `/metrics` alone. */
  metricsToken: string | undefined
  /** Who made a connection over loopback; undefined: the system's own tables say it. */
  uidOf: UidOf | undefined
  /** A separate number, so that it is reachable while the public hosts are full. */
  connections: ConnectionLimits | undefined
  /** Undefined: requests come without TLS. */
  tls: ListenerTls | undefined
  operations: OperationDeps
  /** What operators block, their acts, and who uploaded what. */
  moderation: Moderation | undefined
  /** Undefined in processes without access to accounts. */
  accounts: NewAccountDeps | undefined
}

export interface Moderation {
  lists: BlockLists
  transfers: TransferLog
  reports: Reports
}

/** Longer than `ctl` waits for an answer: comparing or collecting everything takes minutes. */
const answerMs = 11 * 60_000

const callsOnAccounts = [
  '/admin/accounts',
  '/admin/accounts/*',
  '/admin/contents',
  '/admin/contents/*',
  '/admin/invitations',
]

export function createAdminHost(deps: AdminDeps): FastifyInstance {
  const { log, metrics, rateLimits } = deps
  // No proxy is trusted here: the peer of the connection decides.
  const host = createHttpHost({
    ...ownParts,
    name: 'admin',
    log,
    metrics,
    rateLimits,
    trustProxy: false,
    cors: false,
    idleTimeoutMs: answerMs,
    isBanned: undefined,
    connections: deps.connections,
    tls: deps.tls,
  })

  const callers = new LocalCallers(deps.uidOf)
  const refusalOf = async (
    { raw, headers }: FastifyRequest,
    tokens: readonly (string | undefined)[],
  ): Promise<RefusalError | undefined> => {
    const { socket, httpVersion } = raw
    const remoteAddress = socket.remoteAddress ?? ''
    const isOperator = () => callers.isOperator(socket)
    const verdict = await judge({ remoteAddress, headers, httpVersion, isOperator }, tokens)
    return verdict === 'allowed' ? undefined : new RefusalError(verdict)
  }
  const refusalFor = (request: FastifyRequest) => refusalOf(request, [deps.adminToken])
  const scrapeRefusalFor = (request: FastifyRequest) =>
    refusalOf(request, [deps.adminToken, deps.metricsToken])

  const { accounts, moderation } = deps
  const allAccounts = accounts && moderation && new AllAccounts({ ...accounts, lists: moderation.lists })
  readinessMetrics(metrics, deps.readiness)
  banMetrics(metrics, deps.operations.bans)
  healthRoutes(host, { readiness: deps.readiness, metrics, refusalFor, scrapeRefusalFor })
  host.register(async (operator) => {
    operator.addHook('onRequest', async (request) => {
      const refusal = await refusalFor(request)
      if (refusal === undefined) return
      // The right token is accepted also after wrong ones: it has 16 characters or more. The budget
      // ends in a ban.
      if (request.headers.authorization !== undefined)
        await guessing(rateLimits, request, (guesses) => guesses.wrong('token'))
      throw refusal
    })
    if (moderation !== undefined) logCalls(operator, moderation.lists.acts)
    operationRoutes(operator, deps.operations)
    if (accounts !== undefined) accountRoutes(operator, accounts, moderation?.lists)
    // Not an answer about the account, which may exist.
    else
      for (const path of callsOnAccounts)
        operator.all(path, async () => {
          throw new RefusalError('error-noAccounts')
        })
    if (moderation === undefined) return
    moderationRoutes(operator, { lists: moderation.lists, accounts })
    transferRoutes(operator, moderation.transfers, accounts)
    reportRoutes(operator, { ...moderation, accounts })
    if (accounts === undefined || allAccounts === undefined) return
    const all = { ...accounts, lists: moderation.lists }
    contentRoutes(operator, all)
    allAccountsRoutes(operator, all, allAccounts)
  })
  if (accounts !== undefined && moderation !== undefined && allAccounts !== undefined) {
    const isOperator = ({ raw }: FastifyRequest) => callers.isOperator(raw.socket)
    const sessions = new PageSessions({
      get adminToken() {
        return deps.adminToken
      },
      isOperator,
      clock: accounts.clock,
    })
    host.register(moderationPage({ ...moderation, accounts, allAccounts, sessions, rateLimits }))
  }
  return host
}
