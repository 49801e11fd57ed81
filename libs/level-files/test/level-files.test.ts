import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import t, { type Test } from 'tap'
import { isWholeLog, logDamage, tableDamage } from '../src/index.ts'

/** The log, and after another opening the table, of a database with 40 rows. */
async function filesOf(t: Test): Promise<{ log: Buffer; table: Buffer }> {
  const path = join(t.testdir(), 'rows')
  const open = () =>
    new ClassicLevel<Uint8Array, Uint8Array>(path, {
      keyEncoding: 'view',
      valueEncoding: 'view',
      compression: false,
    })
  const contentsOf = (ending: string) => {
    const [name = ''] = readdirSync(path).filter((file) => file.endsWith(ending))
    return readFileSync(join(path, name))
  }
  let rows = open()
  for (let n = 0; n < 40; n++)
    await rows.put(Buffer.from(`row ${n}`), randomBytes(n === 20 ? 262_144 : 3_000))
  await rows.close()
  const log = contentsOf('.log')
  rows = open()
  await rows.open()
  await rows.close()
  return { log, table: contentsOf('.ldb') }
}

const flipped = (bytes: Buffer, at: number) => {
  const other = Buffer.from(bytes)
  other[at] = (other[at] as number) ^ 0x04
  return other
}

t.test('each flipped bit of a table is damage', async (t) => {
  const { table } = await filesOf(t)
  t.equal(tableDamage(table), undefined)
  // The padding of the footer is in no block.
  const footerAt = table.length - 48
  for (let at = 0; at < footerAt; at += 997)
    t.match(tableDamage(flipped(table, at)), /block at \d+ is damaged/)
  for (let at = footerAt - 40; at < footerAt + 4; at++) t.ok(tableDamage(flipped(table, at)), `byte ${at}`)
  t.equal(tableDamage(flipped(table, table.length - 1)), 'its end is damaged')
  for (const bytes of [0, 1, 47, 48, table.length - 1])
    t.equal(tableDamage(table.subarray(0, bytes)), 'its end is damaged')
})

t.test('a log may end anywhere, and a damaged record before a whole one is damage', async (t) => {
  const { log } = await filesOf(t)
  for (let bytes = 0; bytes <= log.length; bytes += 4_999) {
    t.equal(logDamage(log.subarray(0, bytes)), undefined)
    const zeros = Buffer.alloc(log.length)
    log.copy(zeros, 0, 0, bytes)
    t.equal(logDamage(zeros), undefined, 'its last blocks may not have been written')
  }
  for (let at = 7; at < log.length / 2; at += 9_973)
    t.match(logDamage(flipped(log, at)), /a record at \d+ is damaged/)
})

t.test('a synced log may only be torn, also in its last records', async (t) => {
  const { log } = await filesOf(t)
  t.ok(isWholeLog(log))
  for (let bytes = 0; bytes <= log.length; bytes += 4_999) t.ok(isWholeLog(log.subarray(0, bytes)))
  for (let at = 0; at < log.length; at += 9_973) t.notOk(isWholeLog(flipped(log, at)), `byte ${at}`)
  t.notOk(isWholeLog(flipped(log, log.length - 1)), 'the last byte')
})
