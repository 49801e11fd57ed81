/** The time of the last backup outlives the process that took it. */
import t from 'tap'
import { LastBackup, lastBackupKey } from '../src/index.ts'

function keptIn(rows: Map<string, Uint8Array>, fault?: () => Error | undefined) {
  const faults: unknown[] = []
  const fail = () => {
    const error = fault?.()
    if (error !== undefined) throw error
  }
  const last = new LastBackup({
    rows: {
      get: async (key) => {
        fail()
        return rows.get(key)
      },
      write: async (changes) => {
        fail()
        for (const { put, value } of changes) rows.set(put, value)
      },
    },
    onFault: (error) => faults.push(error),
  })
  return { last, faults }
}

t.test('another process reads what one has noted, and never goes back', async (t) => {
  const rows = new Map<string, Uint8Array>()
  const first = keptIn(rows).last
  await first.read()
  t.equal(first.takenMs, undefined)
  await first.note(1_700_000_000_000)
  const second = keptIn(rows).last
  await second.read()
  t.equal(second.takenMs, 1_700_000_000_000)
  await second.note(1_700_000_100_000)
  await first.read()
  t.equal(first.takenMs, 1_700_000_100_000)
  rows.set(lastBackupKey, Buffer.from('1600000000000'))
  await first.read()
  t.equal(first.takenMs, 1_700_000_100_000)
})

t.test('a failed read or write is reported; this process still knows the time', async (t) => {
  const { last, faults } = keptIn(new Map(), () => new Error('away'))
  await last.note(1_700_000_000_000)
  await last.read()
  t.equal(last.takenMs, 1_700_000_000_000)
  t.match(faults, [{ message: 'away' }, { message: 'away' }])
})
