/** Keys and values of rows, and subjects of the cluster: stores and other processes have them. */
import { MemoryBus } from '@holdfast/bus'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { systemClock } from '@holdfast/kernel'
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'
import { takenOver } from '../src/regions/evacuation.ts'
import * as keys from '../src/row-keys.ts'
import { NodeAdminStates } from '../src/storage/node-admin-states.ts'
import * as subjects from '../src/subjects.ts'

t.test('keys of rows', async (t) => {
  const at = { number: 70, term: 2, version: 3 }
  const lines = Object.entries(keys).map(
    ([name, of]) => `${name} ${typeof of === 'string' ? of : of('eu-par', at)}`,
  )
  sameAsGolden(t, import.meta.dirname, 'row-keys.txt', lines.sort())
})

t.test('subjects', async (t) => {
  const { heardByAll, ...bySubject } = subjects
  const lines = [
    ...Object.entries(bySubject).map(([name, of]) => `${name} ${of('eu-par')}`),
    ...Object.entries(heardByAll).map(([name, subject]) => `${name} ${subject}`),
  ]
  sameAsGolden(t, import.meta.dirname, 'subjects.txt', lines.sort())
})

t.test('values of rows that are text', async (t) => {
  const bus = new MemoryBus()
  const lookups = new MemoryLookupStore()
  const nodes = new NodeAdminStates({ lookups, bus, onFault: (error) => void t.fail(String(error)) })
  t.teardown(() => nodes.close())
  t.teardown(() => bus.close())
  await nodes.set('node-1', 'draining')
  await nodes.set('node-2', 'removed')
  const cutShort = [{ account: 'a', cut: 5, known: 6 }]
  const failures = [{ account: 'b', fault: 'a page did not arrive' }]
  const newestChange = '2030-01-01T00:00:00.000Z'
  const taken = { accounts: 2, lostRows: 1, cutShort, failures, newestChange }
  const answers = [{ taken, next: 'a place' }, { fault: 'the host is gone' }]
  const lines: string[] = []
  bus.serve(subjects.takeoverSubjectOf('eu-par'), async (question) => {
    const line = `takeover is asked ${Buffer.from(question)}`
    // A fault is asked for again.
    if (lines.at(-1) !== line) lines.push(line)
    return Buffer.from(JSON.stringify(answers.length > 1 ? answers.shift() : answers[0]))
  })
  const home = { birth: 'na-nyc', serving: 'eu-par', term: 2 } as const
  const cluster = { bus, lookups, clock: systemClock } as unknown as Parameters<typeof takenOver>[0]
  await t.rejects(takenOver(cluster, home, 1))
  for await (const { key, value } of lookups.scan('')) lines.push(`${key} = ${Buffer.from(value)}`)
  sameAsGolden(t, import.meta.dirname, 'row-values.txt', lines)
})
