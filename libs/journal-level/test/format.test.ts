import { hex } from '@holdfast/kernel'
import { Level } from 'level'
import t from 'tap'
import { LevelMetadataStore } from '../src/index.ts'
import {
  decodeFixed,
  decodeNamed,
  decodeNumber,
  decodeRow,
  decodeSmall,
  encodeFixed,
  encodeNamed,
  encodeNumber,
  encodeRow,
  encodeSmall,
  keys,
} from '../src/rows/format.ts'
import { decodeRanges, encodeRanges } from '../src/rows/lost-ranges.ts'
import { testMetadataStore } from '../src/testing.ts'
import { encodeEntry } from '../src/writing/commit-audit.ts'
import { directory } from './directories.ts'

const sixteen = (byte: number) => Buffer.alloc(16, byte)
const fixed = {
  epoch: 2,
  head: 3,
  chain: sixteen(0xcc),
  trimmed: 1,
  owner: 'host',
  root: { through: 2, digest: sixteen(0xdd) },
}
const row = {
  seq: 3,
  epoch: 2,
  predecessor: sixteen(0xaa),
  checksum: Buffer.from('7d6318d901c2e2395f6de8bffbedba09', 'hex'),
  bytes: Buffer.from('bytes'),
}

const ranges = [
  { after: undefined, through: Buffer.from('bc') },
  { after: Buffer.from('ja'), through: undefined },
]

t.test('keys and rows of version 1 never change', async (t) => {
  t.same(
    {
      fixedKey: String(keys.fixed('acc')),
      rowKey: hex(keys.row('acc', 258)),
      rootKey: String(keys.root('acc')),
      pageKey: String(keys.page('acc', 'p/1')),
      lookupKey: String(keys.lookup('code/x')),
      counterKey: String(keys.counter('codes')),
      markerKey: hex(keys.marker(32_770)),
      fixed: hex(encodeFixed('acc', fixed)),
      row: hex(encodeRow(row)),
      page: hex(encodeNamed('acc', 'p/1', Buffer.from('page'))),
      lookup: hex(encodeSmall(keys.lookup('code/x'), Buffer.from('value'))),
      number: hex(encodeNumber(keys.counter('codes'), 258)),
      copyKey: String(keys.copy(keys.counter('codes'))),
      rangesKey: String(keys.lostRanges),
      ranges: hex(encodeRanges(ranges)),
      auditEntry: hex(encodeEntry(7, [{ subject: 'jacc', epoch: 2, number: 3 }])),
    },
    {
      fixedKey: 'jacc\0s',
      rowKey: '6a6163630065000000000102',
      rootKey: 'jacc\0r',
      pageKey: 'jacc\0pp/1',
      lookupKey: 'lcode/x',
      counterKey: 'ccodes',
      markerKey: '620002',
      fixed:
        '0100000000000000020000000000000003cccccccccccccccccccccccccccccccc00000000000000010000000000000002dddddddddddddddddddddddddddddddd030004686f737491113c85fd6ef3aebfe3b48672b1e2c5',
      row: '0100000000000000030000000000000002aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa7d6318d901c2e2395f6de8bffbedba096279746573',
      page: '01cfb93a40e2e701ec723eff4bff3cb02670616765',
      lookup: '23025fa576616c7565',
      number: '2100132f0000000000000102',
      copyKey: 'nccodes',
      rangesKey: 'g',
      ranges: '00000003626300036a610000',
      auditEntry:
        '000000320f0897aa000000000000000700011edf0da4e127d168b92dcc8b1360c97300000000000000020000000000000003',
    },
  )
})

t.test('ranges read back as they were written', async (t) => {
  t.same(decodeRanges(encodeRanges(ranges)), ranges)
})

t.test('rows read back as they were written, and no bit of them can change', async (t) => {
  const forms: [string, Buffer, (stored: Uint8Array) => unknown, unknown][] = [
    ['static row', encodeFixed('acc', fixed), (stored) => decodeFixed('acc', stored), fixed],
    ['row', encodeRow(row), (stored) => decodeRow('acc', stored, { seq: 3 }), row],
    [
      'page',
      encodeNamed('acc', 'p', Buffer.from('page')),
      (stored) => decodeNamed('acc', 'p', stored),
      Buffer.from('page'),
    ],
    [
      'lookup',
      encodeSmall(keys.lookup('k'), Buffer.from('value')),
      (stored) => decodeSmall(keys.lookup('k'), stored),
      Buffer.from('value'),
    ],
    [
      'number',
      encodeNumber(keys.counter('k'), 2 ** 40),
      (stored) => decodeNumber(keys.counter('k'), stored),
      2 ** 40,
    ],
  ]
  for (const [name, stored, decode, expected] of forms) {
    t.same(decode(stored), expected, name)
    const unnoticed: number[] = []
    for (let bit = 0; bit < stored.length * 8; bit++) {
      const flipped = Buffer.from(stored)
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      if (!isRefused(() => decode(flipped))) unnoticed.push(bit)
    }
    for (let length = 0; length < stored.length; length++) {
      if (!isRefused(() => decode(stored.subarray(0, length)))) unnoticed.push(-length)
    }
    t.same(unnoticed, [], `${name}: every flipped bit and every cut is refused`)
  }
})

t.test('a row in another place is refused', async (t) => {
  t.ok(isRefused(() => decodeFixed('abc', encodeFixed('acc', fixed))))
  t.ok(isRefused(() => decodeRow('abc', encodeRow(row), { seq: 3 })))
  t.ok(isRefused(() => decodeRow('acc', encodeRow(row), { seq: 4 })))
  t.ok(isRefused(() => decodeNamed('acc', 'q', encodeNamed('acc', 'p', Buffer.from('page')))))
  t.ok(isRefused(() => decodeSmall(keys.lookup('b'), encodeSmall(keys.lookup('a'), Buffer.from('value')))))
})

t.test('a store of a newer format is not touched', async (t) => {
  const path = await directory(t)
  await (await LevelMetadataStore.open({ ...testMetadataStore, path })).close()
  const level = new Level<Uint8Array, Uint8Array>(`${path}/rows`, {
    keyEncoding: 'view',
    valueEncoding: 'view',
  })
  await level.put(keys.meta('format'), encodeNumber(keys.meta('format'), 2))
  await level.close()
  await t.rejects(LevelMetadataStore.open({ ...testMetadataStore, path }), {
    code: 'UNAVAILABLE',
    message: /format 2/,
  })
})

function isRefused(decode: () => unknown): boolean {
  try {
    decode()
    return false
  } catch (fault) {
    return (fault as { code?: string }).code === 'CORRUPT'
  }
}
