/** `GET /health` of the public hosts. */
import { Writable } from 'node:stream'
import { systemClock } from '@holdfast/kernel'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t from 'tap'
import { createHttpHost, createRateLimits, healthRoute, ownParts } from '../src/index.ts'

t.test('a process that is not ready tells anybody, and names no cause', async (t) => {
  let ready = true
  const lines: string[] = []
  const metrics = new Registry()
  const app = createHttpHost({
    ...ownParts,
    name: 'download',
    log: pino(new Writable({ write: (line, _, done) => done(void lines.push(`${line}`)) })),
    metrics,
    trustProxy: false,
    cors: true,
    rateLimits: createRateLimits({ mode: 'default', clock: systemClock }),
    isBanned: undefined,
  })
  healthRoute(app, { isReady: async () => ready })
  t.teardown(() => app.close())
  const well = await app.inject('/HEALTH')
  t.equal(well.statusCode, 200)
  t.strictSame(well.json(), { status: 'ok', data: {} })
  t.match(well.headers, { 'cache-control': 'no-store', 'content-type': /^application\/json/, ratelimit: /./ })
  ready = false
  const ill = await app.inject('/health?verbose')
  t.equal(ill.statusCode, 503)
  t.strictSame(ill.json(), { status: 'error-unavailable' })
  t.match(ill.headers, { 'cache-control': 'no-store', 'retry-after': '2' })
  t.strictSame(lines, [], 'probes write no log')
  const counted = await metrics.metrics()
  t.match(counted, /_count\{host="download",method="GET",route="\/health",outcome="failed"\} 1/)
  t.match(counted, /holdfast_refusals_total\{host="download",status="error-unavailable"\} 1/)
})
