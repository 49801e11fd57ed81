/**
 * Every metric of `infra/METRICS.md` changes with what it measures. Each metric is read at rest,
 * and again after all measured figures have changed; the golden file has the second values. The
 * test fails for a metric that is missing here or does not change.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { HostMetrics } from '@holdfast/actor-runtime'
import {
  accountMetrics,
  backupMetrics,
  clockGuardMetric,
  clockMetric,
  collectorMetrics,
  diskMetrics,
  metadataMetrics,
  moderationMetrics,
  processMetrics,
  Readiness,
  reconcileMetrics,
  reportMetrics,
  scrubMetrics,
  shownCertificateMetrics,
  storeMetrics,
  transferMetrics,
} from '@holdfast/admin'
import { MemoryBlobStore, type StoreHealth } from '@holdfast/blob-store'
import { AnswerBudget, banMetrics } from '@holdfast/http-kit'
import { plainBudget } from '@holdfast/http-kit/testing'
import type { Clock } from '@holdfast/kernel'
import fastify from 'fastify'
import type { Registry } from 'prom-client'
import t from 'tap'
import { scanMetrics } from '../apps/upload/src/scanning/scan-metrics.ts'
import { UploadMetrics } from '../apps/upload/src/upload-metrics.ts'
import { sameAsGolden } from '../infra/golden.ts'
import { readinessMetrics } from '../libs/admin/src/metrics/readiness-metrics.ts'
import { groupMetrics } from '../libs/cluster/src/operator/group-metrics.ts'
import { certificateMetrics } from '../libs/cluster/src/servers/certificate-metrics.ts'
import {
  busMetrics,
  cassandraMetrics,
  cassandraNodeMetrics,
} from '../libs/cluster/src/servers/server-metrics.ts'
import { trafficCounter } from '../libs/downloads/src/traffic-counter.ts'
import { connectionFigures } from '../libs/http-kit/src/connections/connection-figures.ts'
import { RequestMetrics } from '../libs/http-kit/src/metrics/request-metrics.ts'
import { peerMetrics } from '../libs/storage-role/src/peer-metrics.ts'
import { replicationMetrics } from '../libs/storage-role/src/replication-metrics.ts'

/** At rest every figure is 0, at work each is another number. */
let works = false
const of = (figure: number) => (works ? figure : 0)
const is = (fault: string) => (works ? fault : undefined)
const clock: Clock = { now: () => 1_000_000, monotonic: () => 1_000_000 }

/** Calls on the metrics of accounts, as a host makes them. */
const reported: { [Call in keyof HostMetrics]: Parameters<HostMetrics[Call]> } = {
  requested: [{ depth: 1 }],
  overloaded: [],
  waited: [{ ms: 1_000 }],
  activated: [{ ms: 2_000, rows: 1, bytes: 1 }],
  lost: [{ reason: 'bug' }],
  passivated: [{ pendingEffects: false }],
  made: [],
  flushed: [{ ms: 3_000, bytes: 30, changes: 31, replies: 32 } as never],
  unknown: [{ outcome: 'in' }],
  checkpointed: [{ ms: 4_000, bytes: 1, pages: 1 }],
  checkpointFailed: [{ what: 'root' }],
  effectsPending: [40],
  mailsWaiting: [41],
  mailed: [{ outcome: 'sent' }],
  passwordChecked: [{ ms: 5_000 }],
  swept: [{ why: 'idle', contents: 42 }],
  quarantined: [{ accounts: 43 }],
  backupLag: [{ accounts: 44, ms: 45_000 }],
  memory: [{ accounts: 46, bytes: 47 }],
}

/** Registers all metrics. @returns the calls that change those which are counted, not read. */
function registerAll(registry: Registry): () => Promise<void> {
  const { observer } = accountMetrics(registry)
  registerStores(registry)
  registerMetadata(registry)
  registerModeration(registry)
  const readiness = new Readiness({
    store: async () => {
      if (!works) throw new Error('it rests')
    },
  })
  readinessMetrics(registry, readiness)
  registerChecks(registry)
  const scans = {
    get figures() {
      return {
        ...{ scanner: 'a scanner', underWay: of(111), failing: is('it is down') },
        outcomes: {
          ...{ clean: of(112), found: of(113), failed: of(114) },
          ...{ known: of(115), larger: of(116), lifted: of(117) },
        },
      }
    },
    onScanned: (_: number) => {},
  }
  scanMetrics(registry, scans)
  banMetrics(registry, () => (works ? [{ network: '192.0.2.1', untilMs: 1, times: 1 }] : []))
  const uploads = new UploadMetrics(registry, () => ({ uploads: of(120), stages: of(121), bytes: of(122) }))
  registerNodes(registry)
  const asked = cassandraMetrics(registry)
  cassandraNodeMetrics(registry, {
    nodes: () => [{ region: 'eu-par', known: of(148), connected: of(149) }],
  })
  const budget = new AnswerBudget({ ...plainBudget, metrics: registry }, { bytesMax: 1_000, waitMs: 0 })
  const http = new RequestMetrics(registry, 'api')
  const connections = connectionFigures(registry)
  const traffic = trafficCounter(registry)

  return async () => {
    works = true
    readiness.phase = 'ready'
    for (const [call, figures] of Object.entries(reported))
      (observer[call as keyof HostMetrics] as (...given: unknown[]) => void)(...figures)
    scans.onScanned(6)
    uploads.ended('stored', 150)
    uploads.refused('share')
    asked({ region: 'eu-par', ms: 7_000, failed: false })
    traffic.inc({ traffic: 'direct' }, 151)
    const host = { host: 'api' }
    connections.open.set(host, 152)
    connections.max.set(host, 153)
    connections.refused.inc({ ...host, reason: 'full' }, 154)
    connections.evicted.inc({ ...host, reason: 'idle' }, 155)
    await oneRefused(http)
    const held = budget.open('a', () => {})
    held.keep(900)
    const waits = budget.open('b', () => {})
    const never = waits.take(500)?.catch(() => {})
    budget.sweep()
    await never
    void budget
      .open('c', () => {})
      .take(600)
      ?.catch(() => {})
  }
}

function registerStores(registry: Registry): void {
  const health = {
    get failure() {
      return works ? new Error('it failed') : undefined
    },
    get recovering() {
      return works
    },
    get quarantined() {
      return works ? [{ file: '1.extent', reason: 'damaged' as const, bytes: 1, liveBytes: 1 }] : []
    },
    get extentFailures() {
      return of(63)
    },
    get gap() {
      return is('unknown blobs')
    },
    get sendsDirectly() {
      return works
    },
    catalogue: 'level',
  } satisfies StoreHealth
  const usage = async () => ({
    ...{ liveBytes: of(50), blobs: of(51), diskBytes: of(52), freeBytes: of(53) },
    ...{ writable: works, openStages: of(54), stagedBytes: of(55) },
  })
  storeMetrics(registry, Object.assign(new MemoryBlobStore(), { health, usage }))
  diskMetrics(registry, {
    get disk() {
      return { totalBytes: of(56), freeBytes: of(57), reserveBytes: of(58) }
    },
  })
}

function registerMetadata(registry: Registry): void {
  metadataMetrics(registry, {
    isWritable: () => works,
    lostBatches: () => of(59),
    unauditedBatches: () => of(61),
  })
  backupMetrics(registry, () => of(60_000))
  shownCertificateMetrics(registry, {
    hosts: {
      get expiresMs() {
        return new Map([['files.example.org', of(60_500)]])
      },
    },
    servers: {
      get expiresMs() {
        return new Map([['nats://10.0.0.1:4222', of(60_700)]])
      },
    },
  })
  clockGuardMetric(registry, () => of(61_000))
  clockMetric(registry, { offsetMs: () => of(62_000) })
  collectorMetrics(registry, {
    clock,
    collector: {
      get paused() {
        return works ? { reason: '', sinceMs: 937_000 } : undefined
      },
      get figures() {
        return { lastPassMs: of(64_000), deleted: of(65), freedBytes: of(66), waiting: of(67) }
      },
    },
  })
}

function registerModeration(registry: Registry): void {
  moderationMetrics(registry, { count: (list) => of(70 + list.length) })
  reportMetrics(registry, {
    get counts() {
      return { added: of(80), repeated: of(81), full: of(82) }
    },
  })
  transferMetrics(registry, {
    counts: (kind) =>
      kind === 'upload' ? { written: of(83), lost: of(84) } : { written: of(85), lost: of(86) },
  })
}

function registerChecks(registry: Registry): void {
  const round = {
    ...{ beganMs: 910_000, tiers: { guest: 91, standard: 92, premium: 93 }, accounts: 94, used: 95 },
    ...{ references: 96, missing: 97, routes: 98, missingRoutes: 99, orphaned: 100, mended: 101 },
    failed: 102,
  }
  reconcileMetrics(registry, { rounds: () => (works ? { last: round } : { last: undefined }), clock })
  scrubMetrics(registry, {
    scrubber: {
      get figures() {
        return {
          ...{ lastPassMs: of(103_000), beganMs: of(104_000), progress: undefined },
          ...{ suspect: is('much is damaged'), verified: of(104) },
          ...{ verifiedBytes: of(105), damaged: of(106), repaired: of(107), unreadable: of(108) },
        }
      },
    },
    store: { counters: () => ({ damagedBlobs: of(109), replacedBlobs: of(110) }) },
  })
}

/** Between processes of a cluster. */
function registerNodes(registry: Registry): void {
  peerMetrics(registry, {
    figures: () => ({
      ...{ connections: { control: of(123), bytes: of(124) }, calls: of(125), bytes: of(126) },
      refused: {
        ...{ connections: of(127), strangers: of(128), unproven: of(129) },
        ...{ calls: of(130), ahead: of(131), bytes: of(132) },
      },
    }),
  })
  replicationMetrics(registry, {
    replicator: {
      lag: async () => [
        { source: 'node2', entries: of(133), ms: of(134_000), owed: of(135), comparedMs: 1e6 - of(136_000) },
      ],
    },
    regionOf: () => 'eu-par',
    clock,
  })
  groupMetrics(registry, {
    read: () => ({ full: of(156), lacking: of(157), limited: of(158), regional: of(159) }),
  })
  const certificates = {
    get ca() {
      return { issuedMs: of(137_000), expiresMs: of(138_000) }
    },
    get own() {
      return { issuedMs: of(139_000), expiresMs: of(140_000) }
    },
  }
  certificateMetrics(registry, { peers: { certificates }, nats: undefined, cassandra: undefined } as never)
  busMetrics(registry, {
    get up() {
      return works
    },
    figures: () => ({
      ...{ waiting: of(141), linkLosses: of(142) },
      requests: {
        ...{ answered: of(143), timeout: of(144), 'no responders': of(145) },
        ...{ cancelled: of(146), busy: of(147) },
      },
    }),
  })
}

async function oneRefused(http: RequestMetrics): Promise<void> {
  const app = fastify()
  http.watch(app)
  app.addHook('onSend', async (_, reply) => http.began(reply))
  app.get('/known', async () => 'here')
  await app.inject('/known')
  await app.inject('/unknown')
  await app.close()
}

/** Samples without buckets, and without what depends on the time of the run. */
async function samplesOf(registry: Registry): Promise<string[]> {
  const lines = (await registry.metrics()).split('\n')
  return lines.filter((line) => /^holdfast_(?!http_\w+_sum)/.test(line) && !line.includes('_bucket{'))
}

const figuresOf = (name: string, samples: readonly string[]) =>
  samples.filter((line) => new RegExp(`^${name}(_sum|_count)?[{ ]`).test(line))

/** What runs, and a bound. */
const constant = ['holdfast_build_info', 'holdfast_answer_bytes_max']

t.test('each metric of the document is read from what it measures', async (t) => {
  const registry = processMetrics({ version: '1', commit: 'c', role: 'standalone', region: 'eu-par' })
  const work = registerAll(registry)
  const before = await samplesOf(registry)
  await work()
  const after = await samplesOf(registry)
  t.strictSame(await samplesOf(registry), after, 'a scrape changes no figure')
  const page = readFileSync(join(import.meta.dirname, '../infra/METRICS.md'), 'utf8')
  const names = [...page.matchAll(/^\| `(holdfast_\w+)` /gm)].map(([, name = '']) => name)
  t.ok(names.length > 100)
  for (const name of names.filter((each) => !constant.includes(each)))
    t.not(figuresOf(name, after).join('\n'), figuresOf(name, before).join('\n'), `${name} moves`)
  sameAsGolden(t, import.meta.dirname, 'metrics.txt', after)
})
