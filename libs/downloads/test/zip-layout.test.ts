import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { type Entry, fromRandomAccessReader, RandomAccessReader, type ZipFile } from 'yauzl'
import { growsLinearly } from '../../../test/support/growth.ts'
import { layOut, layOutInSlices, type TreeEntry, type ZipLayout } from '../src/archives/zip/layout.ts'
import { cleanName, uniqueNames } from '../src/archives/zip/names.ts'

const noon = Date.UTC(2026, 10, 21, 12, 0, 0) / 1000

/** A tree of real bytes: folders are objects, files texts, pairs keep equal names apart. */
type Tree = [name: string, content: string | Tree][]

function treeOf(name: string, tree: Tree): { entries: TreeEntry[]; contents: Buffer[] } {
  const entries: TreeEntry[] = [{ parent: 0, isFolder: true, name, modTime: noon, blob: undefined }]
  const contents: Buffer[] = [Buffer.alloc(0)]
  const walk = (parent: number, items: Tree) => {
    for (const [itemName, content] of items) {
      const bytes = typeof content === 'string' ? Buffer.from(content) : Buffer.alloc(0)
      const node = entries.length
      const blob = { id: Buffer.from(content.toString()), size: bytes.length, crc32: crc32(bytes) }
      const isFolder = typeof content !== 'string'
      entries.push({ parent, isFolder, name: itemName, modTime: noon, blob: isFolder ? undefined : blob })
      contents.push(bytes)
      if (isFolder) walk(node, content)
    }
  }
  walk(0, tree)
  return { entries, contents }
}

function assemble(layout: ZipLayout, contents: Buffer[], start = 0, end = layout.size): Buffer {
  const parts: Buffer[] = []
  for (const piece of layout.pieces(start, end)) {
    parts.push(
      'bytes' in piece ? piece.bytes : (contents[piece.file] as Buffer).subarray(piece.start, piece.end),
    )
  }
  return Buffer.concat(parts)
}

/** Bytes that exist only on demand: file contents are zeros. */
class VirtualReader extends RandomAccessReader {
  readonly #layout: ZipLayout
  constructor(layout: ZipLayout) {
    super()
    this.#layout = layout
  }
  override _readStreamForRange(start: number, end: number) {
    return Readable.from(zeroes(this.#layout, start, end), { objectMode: false })
  }
}

function* zeroes(layout: ZipLayout, start: number, end: number): Generator<Buffer> {
  for (const piece of layout.pieces(start, end)) {
    if ('bytes' in piece) yield piece.bytes
    else yield Buffer.alloc(piece.end - piece.start)
  }
}

/** What an independent parser finds in an archive. */
function entriesSeen(layout: ZipLayout): Promise<Entry[]> {
  return new Promise((resolve, reject) => {
    const options = { lazyEntries: false, strictFileNames: true }
    fromRandomAccessReader(
      new VirtualReader(layout),
      layout.size,
      options,
      (error: Error | null, zip?: ZipFile) => {
        if (error || !zip) return reject(error)
        const seen: Entry[] = []
        zip.on('entry', (entry) => seen.push(entry))
        zip.on('end', () => resolve(seen))
        zip.on('error', reject)
      },
    )
  })
}

const sample: Tree = [
  ['a.txt', 'alpha'],
  ['A.TXT', 'upper'],
  ['a (2).txt', 'the real second'],
  ['empty file', ''],
  ['empty folder', []],
  ['größe – 日本語 😀.txt', 'unicode'],
  ['CON.txt', 'device'],
  ['..\\..\\evil', 'path'],
  ['trailing. ', 'dots'],
  [
    'sub',
    [
      ['deeper', [['leaf', 'x'.repeat(100_000)]]],
      ['nothing', []],
    ],
  ],
  ['sub', 'a file named as a folder'],
]

t.test('python and unzip can unpack the archives', async (t) => {
  const { entries, contents } = treeOf('My <Folder>', sample)
  const layout = layOut(entries)
  const archive = assemble(layout, contents)
  t.equal(archive.length, layout.size, 'the length said beforehand is the length')
  const file = join(t.testdir(), 'a.zip')
  writeFileSync(file, archive)
  t.match(execFileSync('unzip', ['-t', file], { encoding: 'utf8' }), /No errors detected/)
  const script = `import json,sys,zipfile
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
print(json.dumps({i.filename: [i.file_size, list(i.date_time)] for i in z.infolist()}))`
  const seen = JSON.parse(execFileSync('python3', ['-c', script, file], { encoding: 'utf8' }))
  t.same(Object.keys(seen), [
    'My _Folder_/a.txt',
    'My _Folder_/A (3).TXT',
    'My _Folder_/a (2).txt',
    'My _Folder_/empty file',
    'My _Folder_/empty folder/',
    'My _Folder_/größe – 日本語 😀.txt',
    'My _Folder_/_CON.txt',
    'My _Folder_/.._.._evil',
    'My _Folder_/trailing_',
    'My _Folder_/sub/deeper/leaf',
    'My _Folder_/sub/nothing/',
    'My _Folder_/sub (2)',
  ])
  t.same(seen['My _Folder_/a.txt'], [5, [2026, 11, 21, 12, 0, 0]])
})

t.test('an empty folder gives an archive without entries', async (t) => {
  const layout = layOut([{ parent: 0, isFolder: true, name: 'nothing', modTime: noon, blob: undefined }])
  t.equal(layout.size, 22)
  t.equal(layout.count, 0)
  t.same(await entriesSeen(layout), [])
})

t.test('every range is the same part of the whole', async (t) => {
  const { entries, contents } = treeOf('f', sample)
  const layout = layOut(entries)
  const whole = assemble(layout, contents)
  const numberUpTo = fc.integer({ min: 0, max: layout.size })
  fc.assert(
    fc.property(numberUpTo, numberUpTo, (a, b) => {
      const [start, end] = a < b ? [a, b] : [b, a]
      return assemble(layout, contents, start, end).equals(whole.subarray(start, end))
    }),
    { numRuns: 500 },
  )
  for (let at = 0; at + 7 <= layout.size; at += 7) {
    if (at > 2_000 && at < 100_000) continue
    t.ok(assemble(layout, contents, at, at + 7).equals(whole.subarray(at, at + 7)), `7 bytes at ${at}`)
  }
  t.throws(() => [...layout.pieces(5, layout.size + 1)], RangeError)
  t.throws(() => [...layout.pieces(-1, 5)], RangeError)
})

t.test('any tree of any names unpacks to as many different safe paths', async () => {
  const name = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 300 }),
    fc.constantFrom(
      'a',
      'A',
      'a (2)',
      'a.',
      'nul',
      '..',
      '.',
      '',
      ' ',
      'x'.repeat(255),
      `${'é'.repeat(255)}.txt`,
    ),
  )
  const tree = fc.letrec<{ tree: Tree }>((tie) => ({
    tree: fc.array(fc.tuple(name, fc.oneof({ depthSize: 'small' }, fc.string(), tie('tree'))), {
      maxLength: 6,
    }) as fc.Arbitrary<Tree>,
  })).tree
  await fc.assert(
    fc.asyncProperty(name, tree, async (top, items) => {
      const { entries, contents } = treeOf(top, items)
      const layout = layOut(entries)
      if (assemble(layout, contents).length !== layout.size) return false
      const seen = await new Promise<Entry[]>((resolve, reject) => {
        entriesSeen(layout).then(resolve, reject)
      })
      const paths = seen.map((entry) => entry.fileName.normalize('NFC').toLowerCase())
      const components = seen.flatMap((entry) => entry.fileName.replace(/\/$/, '').split('/'))
      return (
        new Set(paths).size === layout.count &&
        seen.length === layout.count &&
        components.every((part) => part !== '' && part !== '..' && !/[. ]$/.test(part)) &&
        components.every((part) => Buffer.byteLength(part) <= 255)
      )
    }),
    { numRuns: 150 },
  )
})

t.test('files and offsets beyond 4 GiB are stated in ZIP64, by arithmetic alone', async (t) => {
  const gib = 2 ** 30
  const sizes = [4 * gib - 2, 4 * gib - 1, 4 * gib, 0, 5 * 1024 * gib, 1]
  const entries: TreeEntry[] = [
    { parent: 0, isFolder: true, name: 'big', modTime: noon, blob: undefined },
    ...sizes.map((size, index) => ({
      parent: 0,
      isFolder: false,
      name: `f${index}`,
      modTime: noon,
      blob: { id: Buffer.of(index), size, crc32: index },
    })),
  ]
  const layout = layOut(entries)
  t.ok(layout.size > sizes.reduce((sum, size) => sum + size))
  const seen = await entriesSeen(layout)
  t.same(
    seen.map((entry) => [entry.uncompressedSize, entry.compressedSize, entry.crc32]),
    sizes.map((size, index) => [size, size, index]),
  )
  for (const [index, entry] of seen.entries()) {
    const at = entry.relativeOffsetOfLocalHeader
    const header = Buffer.concat([...zeroes(layout, at, at + 30)])
    t.equal(header.readUInt32LE(0), 0x04034b50, `the local header of ${index} is where the directory says`)
    const size = sizes[index] as number
    t.equal(header.readUInt32LE(18), Math.min(size, 0xffffffff))
    if (size >= 0xffffffff) {
      const wideAt = at + 30 + header.readUInt16LE(26) + 9
      const wide = Buffer.concat([...zeroes(layout, wideAt, wideAt + 20)])
      t.same([wide.readUInt32LE(0), wide.readBigUInt64LE(4)], [0x00100001, BigInt(size)])
    }
    const dataAt = at + 30 + header.readUInt16LE(26) + header.readUInt16LE(28)
    const [piece] = [...layout.pieces(dataAt, dataAt + Math.min(size, 1))]
    if (size > 0) t.same(piece, { file: index + 1, start: 0, end: 1 }, 'its data follows it')
  }
})

t.test('more than 65,535 entries are counted in ZIP64', async (t) => {
  const count = 70_000
  const entries: TreeEntry[] = [{ parent: 0, isFolder: true, name: 'many', modTime: noon, blob: undefined }]
  for (let index = 0; index < count; index++) {
    const blob = { id: Buffer.of(1), size: 1, crc32: crc32('\0') }
    entries.push({ parent: 0, isFolder: false, name: 'same', modTime: noon, blob })
  }
  const layout = layOut(entries)
  const file = join(t.testdir(), 'many.zip')
  writeFileSync(file, Buffer.concat([...zeroes(layout, 0, layout.size)]))
  const script = `import sys,zipfile
names = zipfile.ZipFile(sys.argv[1]).namelist()
print(len(names), len(set(names)), names[-1])`
  t.equal(
    execFileSync('python3', ['-c', script, file], { encoding: 'utf8' }).trim(),
    `${count} ${count} many/same (${count})`,
  )
  t.match(execFileSync('unzip', ['-tq', file], { encoding: 'utf8' }), /No errors detected/)
})

t.test('the digest distinguishes trees and nothing else', async (t) => {
  const of = (entries: TreeEntry[]) => layOut(entries).digest
  const { entries } = treeOf('f', sample)
  t.equal(of(entries), of(structuredClone(entries)))
  const change = (node: number, difference: Partial<TreeEntry>) =>
    of(entries.map((entry, index) => (index === node ? { ...entry, ...difference } : entry)))
  const blob = entries[1]?.blob
  if (!blob) throw new Error('entry 1 is a file')
  const digests = [
    of(entries),
    of(entries.slice(0, -1)),
    change(0, { name: 'g' }),
    change(1, { name: 'b.txt' }),
    change(1, { modTime: noon + 1 }),
    change(1, { blob: { ...blob, crc32: 7 } }),
    change(1, { blob: { ...blob, size: 6 } }),
    change(1, { blob: { ...blob, id: Buffer.from('other content, same crc and size') } }),
  ]
  t.equal(new Set(digests).size, digests.length)
})

t.test('an invalid tree is refused', async (t) => {
  const top = { parent: 0, isFolder: true, name: 'f', modTime: noon, blob: undefined }
  const file = {
    parent: 0,
    isFolder: false,
    name: 'x',
    modTime: noon,
    blob: { id: Buffer.of(1), size: 0, crc32: 0 },
  }
  t.throws(() => layOut([top, { ...file, parent: 1 }]), RangeError)
  t.throws(() => layOut([top, file, { ...file, parent: 1 }]), RangeError)
  t.throws(() => layOut([top, { ...top, name: 'x', isFolder: false }]), RangeError)
})

t.test(
  'deep trees and huge folders take slices, and times that DOS cannot represent are clamped',
  async (t) => {
    const deep: TreeEntry[] = []
    for (let depth = 0; depth <= 128; depth++) {
      deep.push({
        parent: Math.max(depth - 1, 0),
        isFolder: true,
        name: 'd'.repeat(255),
        modTime: 253_402_300_799,
        blob: undefined,
      })
    }
    const [entry] = await entriesSeen(layOut(deep))
    t.equal(entry?.fileName.length, 129 * 256)
    t.equal(((entry?.lastModFileDate ?? 0) >> 9) + 1980, 2107)
    t.throws(
      () => layOut([...deep, ...deep.map((one, index) => ({ ...one, parent: 128 + index }))]),
      RangeError,
    )

    const wide: TreeEntry[] = [{ parent: 0, isFolder: true, name: 'w', modTime: -5, blob: undefined }]
    for (let index = 0; index < 20_000; index++) {
      wide.push({ parent: 0, isFolder: true, name: `n${index}`, modTime: -5, blob: undefined })
    }
    let slices = 0
    for (const steps = layOutInSlices(wide); !steps.next().done; ) slices++
    t.ok(slices >= 20, `${slices} slices for 20,000 entries`)
  },
)

t.test('the time to clean a name grows with its length, for any content', async (t) => {
  for (const piece of ['.', ' ', '. ', 'con.', '\u202e', '?']) {
    const { linear, growth } = growsLinearly((n) => `${piece.repeat(n)}x`, cleanName)
    t.ok(linear, `"${piece}" again and again: ${growth.toFixed(1)} times for 8 times the characters`)
  }
})

t.test('names that a disk of macOS takes for the same are numbered', (t) => {
  const slices = uniqueNames(['ß', 'ẞ', 'SS', 'ſs', 'é', 'e\u0301', 'K', '\u212a'])
  const { value } = slices.next()
  t.strictSame(value, ['ß', 'ẞ (2)', 'SS (3)', 'ſs (4)', 'é', 'e\u0301 (2)', 'K', '\u212a (2)'])
  t.end()
})

t.test('names that are slow to compare are handled in slices', (t) => {
  // Normalising sorts runs of combining marks.
  const names = Array.from({ length: 400 }, (_, at) => `${at}${'\u0f75'.repeat(80)}`)
  for (const all of [names, [...names, ...names]]) {
    const slices = uniqueNames(all)
    let turns = 0
    while (!slices.next().done) turns++
    t.ok(turns >= (all.length * 80) / 2_048, `${turns}`)
  }
  t.end()
})

t.test('names that only differ where they are shortened get their numbers in linear time', (t) => {
  // Each one twice; only the part that the number replaces distinguishes them.
  const make = (count: number) => {
    const names = Array.from({ length: count / 2 }, (_, at) => 'x'.repeat(249) + String(at).padStart(6, '0'))
    return [...names, ...names]
  }
  const unique = (names: readonly string[]) => {
    const slices = uniqueNames(names)
    for (;;) {
      const { value, done } = slices.next()
      if (done) return value
    }
  }
  const names = unique(make(3_000))
  t.equal(new Set(names).size, 3_000)
  t.equal(names[1_500], `${'x'.repeat(249)}00 (2)`)
  const { linear, growth } = growsLinearly(make, unique, 500)
  t.ok(linear, `${growth.toFixed(1)} times for 8 times the names`)
  t.end()
})

t.test('many taken numbers are tried in slices', (t) => {
  const names = ['a', ...Array.from({ length: 5_000 }, (_, at) => `a (${at + 2})`), 'A']
  const slices = uniqueNames(names)
  let turns = 0
  for (let next = slices.next(); ; next = slices.next()) {
    if (next.done) {
      t.equal(next.value.at(-1), 'A (5002)')
      break
    }
    turns++
  }
  t.ok(turns > 5_000 / 512)
  t.end()
})
