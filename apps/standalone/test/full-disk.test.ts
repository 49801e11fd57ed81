/** A start on a full disk: the copies that it reads, and how it waits for room. */
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { ReadingCopies, roomBytesOf, untilRoom } from '../src/full-disk.ts'

// The timers of these waits do not keep the process alive.
const keeping = setInterval(() => {}, 1_000)
t.teardown(() => clearInterval(keeping))

t.test('a start that failed on a disk with room is not repeated at once', async (t) => {
  const folder = t.testdir()
  t.equal(await untilRoom(folder, { reserveBytes: 0, restMs: 0, signal: new AbortController().signal }), true)
  const ending = new AbortController()
  const room = untilRoom(folder, { reserveBytes: 0, restMs: 3_600_000, signal: ending.signal })
  ending.abort()
  t.equal(await room, false)
})

t.test('every start needs free space, and no more than uploads leave', async (t) => {
  const MiB = 1024 * 1024
  t.same(
    [0, 16, 32, 3_072].map((reserve) => roomBytesOf(reserve * MiB) / MiB),
    [8, 12, 24, 64],
  )
})

t.test('the reason why there is no copy is logged once, and no promise rejects', async (t) => {
  const folder = t.testdir()
  const lines: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) })
  const dir = { metadata: join(folder, 'missing'), blobs: join(folder, 'missing') }
  await using copies = new ReadingCopies(dir, log)
  for (let attempt = 0; attempt < 3; attempt++)
    t.equal(await copies.ofRowsWhereItCan(join(folder, 'missing/rows')), undefined)
  t.equal(lines.length, 1)
  t.match(lines[0], 'ENOENT')
})
