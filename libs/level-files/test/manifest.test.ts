import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { contentsOf, keyRangeOf, type LiveTable, readManifest, writeManifest } from '../src/index.ts'
import { userKey } from '../src/internal-key.ts'
import {
  copyOf,
  differences,
  filesEnding,
  inLevel,
  isLost,
  manifestOf,
  manifestPath,
  type Rows,
  tablePath,
  variedDatabase,
} from './databases.ts'

async function database(t: Test): Promise<{ path: string; rows: Rows }> {
  const path = join(t.testdir(), 'rows')
  return { path, rows: await variedDatabase(path, 7) }
}

t.test('a manifest that was written again has every row', async (t) => {
  const { path, rows } = await database(t)
  const manifest = manifestOf(path)
  t.same(filesEnding(path, '.ldb').sort(), manifest.tables.map((table) => tablePath('', table)).sort())
  t.equal(manifest.comparator, 'leveldb.BytewiseComparator')
  const copy = copyOf(path, `${path} copy`, [])
  writeFileSync(manifestPath(copy), writeManifest(manifest))
  t.same(manifestOf(copy), manifest)
  t.same(await inLevel(copy, (level) => differences(level, rows, [])), [])
})

t.test('a manifest made of the tables alone has every row', async (t) => {
  const { path, rows } = await database(t)
  const before = manifestOf(path)
  let lastSequence = 0n
  const tables = filesEnding(path, '.ldb').map((name): LiveTable => {
    const table = readFileSync(join(path, name))
    const contents = contentsOf(table)
    if (contents === undefined) throw new Error(`${name} is empty`)
    if (contents.lastSequence > lastSequence) lastSequence = contents.lastSequence
    return { level: 0, number: Number.parseInt(name, 10), bytes: table.length, ...contents }
  })
  const copy = copyOf(path, `${path} copy`, [])
  const numbers = { logNumber: 0, previousLogNumber: 0, nextFile: before.nextFile + 10 }
  writeFileSync(
    manifestPath(copy),
    writeManifest({ comparator: before.comparator, ...numbers, lastSequence, tables }),
  )
  t.same(await inLevel(copy, (level) => differences(level, rows, [])), [])
})

t.test('a manifest of more than a block of the log is read and written', async (t) => {
  const key = (n: number) => Buffer.concat([Buffer.from(`key ${n}`), Buffer.from('0100000000000000', 'hex')])
  const tables = Array.from({ length: 3_000 }, (_, n) => {
    return { level: n % 7, number: n, bytes: 2 ** 33 + n, smallest: key(n), largest: key(n + 1) }
  })
  const numbers = { logNumber: 7, previousLogNumber: 0, nextFile: 2 ** 40, lastSequence: 2n ** 56n - 1n }
  const manifest = { comparator: 'leveldb.BytewiseComparator', ...numbers, tables }
  const file = writeManifest(manifest)
  t.ok(file.length > 3 * 32_768)
  t.same(readManifest(file), manifest)
  t.equal(readManifest(file.subarray(0, 70_000)), undefined, 'it has no record that is whole')
  t.equal(readManifest(Buffer.from(file).fill(0, 65_536)), undefined)
})

t.test('damage is recognised, and an end that is torn is none', async (t) => {
  const { path } = await database(t)
  // LevelDB begins a new manifest at each opening, and adds to it while it runs.
  let file = Buffer.alloc(0)
  await inLevel(path, async (level) => {
    for (let n = 0; n < 5; n++) {
      await level.put(Buffer.from('added'), Buffer.from(`${n}`))
      await level.compactRange(Buffer.alloc(0), Buffer.alloc(1, 0xff))
    }
    file = readFileSync(manifestPath(path))
  })
  // The first record has the tables, the second one the numbers.
  const first = 7 + file.readUInt16LE(4)
  const second = first + 7 + file.readUInt16LE(first + 4)
  t.ok(readManifest(file))
  t.ok(second < file.length - 100, 'it has more records')
  const wrong: string[] = []
  const expect = (isRead: boolean, bytes: Buffer, what: string) => {
    if ((readManifest(bytes) !== undefined) !== isRead) wrong.push(what)
  }
  for (let at = 0; at < file.length; at++) {
    const flipped = Buffer.from(file)
    flipped[at] = (flipped[at] as number) ^ (1 << (at % 8))
    expect(false, flipped, `byte ${at} differs`)
    expect(at >= second, file.subarray(0, at), `cut to ${at}`)
  }
  for (let end = second + 1; file.subarray(end).some((byte) => byte !== 0); end++)
    expect(false, Buffer.from(file).fill(0, second, end), `zeros from ${second} to ${end}`)
  t.same(wrong, [])
  t.ok(readManifest(Buffer.concat([file, Buffer.alloc(4096)])), 'zeros behind it')
})

t.test('bounds cover the keys of a table, and no other that is not close to them', (t) => {
  const tag = Buffer.from('0100000000000000', 'hex')
  const boundsFrom = (smallest: Buffer) => {
    const [first, last] = [smallest, Buffer.from('n')].map((key) => Buffer.concat([key, tag])) as [
      Buffer,
      Buffer,
    ]
    return keyRangeOf({ level: 0, number: 1, bytes: 1, smallest: first, largest: last })
  }
  for (const smallest of ['j 5', 'a\0', '\0', ''].map((key) => Buffer.from(key))) {
    const bounds = boundsFrom(smallest)
    t.ok(isLost(smallest, [bounds]))
    t.ok(isLost(Buffer.from('n'), [bounds]))
    t.notOk(isLost(Buffer.from('n\0'), [bounds]))
  }
  t.notOk(isLost(Buffer.from('j 4/a row'), [boundsFrom(Buffer.from('j 5'))]))
  t.same(userKey(Buffer.concat([Buffer.from('j'), tag])), Buffer.from('j'))
  t.end()
})
