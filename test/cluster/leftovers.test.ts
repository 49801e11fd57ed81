/** Processes that a killed supervisor leaves behind. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { endLeftovers, recordRunning } from '../../infra/cluster/leftovers.ts'

t.test('recorded processes are ended, later ones with the same numbers are not', async (t) => {
  const dataDir = t.testdir()
  t.same(await endLeftovers(dataDir), [], 'nothing is recorded')
  const [left, other] = [spawn('sleep', ['600']), spawn('sleep', ['600'])]
  t.teardown(() => {
    left.kill()
    other.kill()
  })
  await Promise.all([once(left, 'spawn'), once(other, 'spawn')])
  recordRunning(dataDir, [
    ['left', left.pid as number],
    ['other', other.pid as number],
    ['gone', 2 ** 22 + 1],
  ])
  const path = join(dataDir, 'running.json')
  const recorded = JSON.parse(readFileSync(path, 'utf8')) as { name: string; began: string }[]
  const later = recorded.map((one) => (one.name === 'other' ? { ...one, began: `${one.began}0` } : one))
  writeFileSync(path, JSON.stringify(later))

  const ended = once(left, 'exit')
  t.same(await endLeftovers(dataDir), ['left'])
  await ended
  t.equal(other.exitCode, null)
  t.equal(other.signalCode, null)
  t.same(await endLeftovers(dataDir), [])
})
