import { mock } from 'node:test'
import t from 'tap'
import { RateLimitedLog } from '../src/servers/rate-limited-log.ts'

t.test('of many events the first is logged at once, the others per interval with their number', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const reported: [string, number][] = []
  const log = new RateLimitedLog<string>((last, count) => reported.push([last, count]))
  for (let n = 0; n < 20_000; n++) log.add(`entry ${n}`)
  t.same(reported, [['entry 0', 1]])
  mock.timers.tick(10_000)
  t.same(reported.splice(0), [
    ['entry 0', 1],
    ['entry 19999', 19_999],
  ])
  mock.timers.tick(60_000)
  t.same(reported, [], 'nothing happened, nothing is logged')
  log.add('later')
  log.add('last')
  log.close()
  t.same(reported, [
    ['later', 1],
    ['last', 1],
  ])
})
