import { readdirSync } from 'node:fs'
import t from 'tap'
import { processMetrics } from '../src/index.ts'

t.test('a scrape visits no handles, and counts open files', async (t) => {
  const registry = processMetrics({ version: '1', commit: 'c', role: 'standalone', region: 'eu-par' })
  let walks = 0
  for (const name of ['_getActiveHandles', '_getActiveRequests', 'getActiveResourcesInfo'] as const) {
    const of = process as unknown as Record<string, () => unknown[]>
    const walk = of[name] as () => unknown[]
    of[name] = () => {
      walks++
      return walk.call(process)
    }
    t.teardown(() => {
      of[name] = walk
    })
  }
  const text = await registry.metrics()
  t.equal(walks, 0)
  const open = Number(/^process_open_fds (\d+)$/m.exec(text)?.[1])
  t.ok(Math.abs(open - readdirSync('/proc/self/fd').length) <= 2, `${open} files`)
  t.match(text, 'nodejs_eventloop_lag_seconds')
})
