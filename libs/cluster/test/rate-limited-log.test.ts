import { mock } from 'node:test'
import t from 'tap'
import { RateLimitedLog } from '../src/servers/rate-limited-log.ts'

t.test('of many events the first is logged at once, the others per interval with their number', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const told: [string, number][] = []
  const log = new RateLimitedLog<string>((last, count) => told.push([last, count]))
  for (let n = 0; n < 20_000; n++) log.add(`entry ${n}`)
  t.same(told, [['entry 0', 1]])
  mock.timers.tick(10_000)
  t.same(told.splice(0), [
    ['entry 0', 1],
    ['entry 19999', 19_999],
  ])
  mock.timers.tick(60_000)
  t.same(told, [], 'nothing happened, nothing is logged')
  log.add('later')
  log.add('last')
  log.close()
  t.same(told, [
    ['later', 1],
    ['last', 1],
  ])
})
