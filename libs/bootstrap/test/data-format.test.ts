import { lstatSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { dataFormats, dataReleaseOf, upgradeOf } from '../src/data-format.ts'
import {
  checkDataFormat,
  commit,
  type DataFormat,
  requireStores,
  signDataFormat,
  version,
} from '../src/index.ts'

const { format: current } = dataFormats.at(-1) as DataFormat
const next = current + 1
const later: readonly DataFormat[] = [
  ...dataFormats,
  { format: next, since: '0.99.0', what: 'rows in pages' },
]

t.test('a directory says which release wrote it', async (t) => {
  const dir = t.testdir()
  await checkDataFormat(dir)
  t.same(await dataReleaseOf(dir), { release: undefined, damage: [] })
  await signDataFormat(dir)
  t.match(await dataReleaseOf(dir), { release: { format: current, version, commit }, damage: [] })
  await checkDataFormat(dir)
})

t.test('a newer format is refused, and the message names the release that wrote it', async (t) => {
  const dir = t.testdir()
  writeFileSync(
    join(dir, 'release.json'),
    JSON.stringify({ format: next, version: '0.3.1', commit: 'c', agreed: next }),
  )
  const before = readFileSync(join(dir, 'release.json'), 'utf8')
  await t.rejects(checkDataFormat(dir), {
    code: 'DATA_FORMAT',
    message: new RegExp(`has format ${next}, written by release 0.3.1; release \\S+ reads up to ${current}`),
  })
  t.match(await upgradeOf(dir, { yes: true }), {
    opens: false,
    answer: /does not open it: start 0\.3\.1/,
  })
  t.equal(readFileSync(join(dir, 'release.json'), 'utf8'), before, 'nothing is changed')
})

t.test('a step that cannot be rolled back is announced, and needs --yes', async (t) => {
  const dir = t.testdir()
  await signDataFormat(dir)
  await t.rejects(checkDataFormat(dir, later), {
    code: 'DATA_FORMAT',
    message: /releases before 0\.99\.0 do not open it.*ctl upgrade .* --yes/,
  })
  t.match(await upgradeOf(dir, { yes: false, formats: later }), {
    opens: false,
    answer: /rows in pages.*--yes agrees/,
  })
  await t.rejects(checkDataFormat(dir, later), { code: 'DATA_FORMAT' }, 'asking alone agrees to nothing')
  t.match(await upgradeOf(dir, { yes: true, formats: later }), {
    opens: true,
    answer: new RegExp(`the next start writes format ${next}`),
  })
  t.match(await upgradeOf(dir, { yes: false, formats: later }), { opens: true })
  await checkDataFormat(dir)
  await checkDataFormat(dir, later)
  await signDataFormat(dir, later)
  await t.rejects(checkDataFormat(dir), { code: 'DATA_FORMAT' }, 'the older release does not open it')
})

t.test('a new directory needs no agreement, one with the data of an older release does', async (t) => {
  const dir = t.testdir({ new: {}, old: { metadata: {} }, node: { blobs: {} } })
  await checkDataFormat(join(dir, 'new'), later)
  await checkDataFormat(join(dir, 'missing'), later)
  await signDataFormat(join(dir, 'new'), later)
  await checkDataFormat(join(dir, 'new'), later)
  for (const name of ['old', 'node'])
    await t.rejects(checkDataFormat(join(dir, name), later), { code: 'DATA_FORMAT', message: /agree/ }, name)
})

/** What a disk may make of the file, by its content. */
const damages: Record<string, (text: string) => string> = {
  empty: () => '',
  'cut off': (text) => text.slice(0, -10),
  'a changed digit of the format': (text) => text.replace(`"format":${next}`, '"format":9'),
  'a changed letter': (text) => text.replace('"version":"0', '"version":"4'),
  'a changed checksum': (text) => text.replace(/..."}\n$/, '000"}\n'),
  zeros: (text) => '\0'.repeat(text.length),
  'other JSON': () => 'null',
  'no format': () => '{}',
  'a format of another type': () => '{"format":"1"}',
}
const files = ['release.json', 'release.json.copy']

t.test('a damaged note of the format is replaced by its copy, and kept', async (t) => {
  for (const [name, damage] of Object.entries(damages))
    for (const file of files) {
      const dir = t.testdir({ metadata: {} })
      await signDataFormat(dir, later)
      const path = join(dir, file)
      const [whole, damaged] = [readFileSync(path, 'utf8'), damage(readFileSync(path, 'utf8'))]
      writeFileSync(path, damaged)
      await t.rejects(
        checkDataFormat(dir),
        { code: 'DATA_FORMAT', message: new RegExp(`has format ${next}`) },
        name,
      )
      t.same(await checkDataFormat(dir, later), [`${path} is damaged`], name)
      t.match(await upgradeOf(dir, { yes: false, formats: later }), { opens: true, directory: { version } })
      await signDataFormat(dir, later)
      t.equal(readFileSync(path, 'utf8'), whole)
      t.equal(readFileSync(`${path}.damaged`, 'utf8'), damaged)
      t.same(await checkDataFormat(dir, later), [])
    }
})

t.test('if both are damaged the release that starts writes them again', async (t) => {
  const dir = t.testdir({ metadata: {} })
  await signDataFormat(dir)
  for (const file of files) writeFileSync(join(dir, file), '')
  t.equal((await checkDataFormat(dir)).length, 2)
  t.match(await upgradeOf(dir, { yes: false }), { opens: true })
  await signDataFormat(dir)
  t.match(await dataReleaseOf(dir), { release: { format: current, version }, damage: [] })
})

t.test('a file with read errors counts as damaged, a file without read permission does not', async (t) => {
  // Reads of this file fail with EIO.
  const unreadable = '/proc/self/mem'
  for (const file of process.platform === 'linux' ? files : []) {
    const dir = t.testdir({ metadata: {} })
    await signDataFormat(dir)
    const path = join(dir, file)
    rmSync(path)
    symlinkSync(unreadable, path)
    t.match(await checkDataFormat(dir), [new RegExp(`${path} cannot be read: EIO`)])
    await signDataFormat(dir)
    t.ok(lstatSync(path).isFile())
    t.ok(lstatSync(`${path}.damaged`).isSymbolicLink())
    t.same(await checkDataFormat(dir), [])
  }
  const dir = t.testdir({ 'release.json': {} })
  await t.rejects(checkDataFormat(dir), { code: 'DATA_UNUSABLE', message: /EISDIR/ })
})

t.test('a note of an earlier release has no checksum and no copy', async (t) => {
  const dir = t.testdir({ metadata: {}, 'release.json': '{"format":1,"version":"0.0.9"}' })
  t.match(await dataReleaseOf(dir), { release: { format: 1, version: '0.0.9' }, damage: [] })
  const first = dataFormats.slice(0, 1)
  t.same(await checkDataFormat(dir, first), [])
  await signDataFormat(dir, first)
  t.same(readFileSync(join(dir, 'release.json')), readFileSync(join(dir, 'release.json.copy')))
})

t.test('a missing release.json is read from its copy', async (t) => {
  const dir = t.testdir({ metadata: {} })
  await signDataFormat(dir, later)
  rmSync(join(dir, 'release.json'))
  await t.rejects(checkDataFormat(dir), { code: 'DATA_FORMAT' })
})

t.test('formats change only with minor versions, so that a rollback within one works', async (t) => {
  const numbers = dataFormats.map(({ format }) => format)
  t.same(
    numbers,
    numbers.map((_, at) => at + 1),
  )
  for (const { since } of dataFormats) t.match(since, /^\d+\.\d+\.0$/)
  t.equal(new Set(dataFormats.map(({ since }) => since)).size, dataFormats.length)
})

t.test('a directory that must have a store and has none is named, with what is missing', async (t) => {
  const dir = t.testdir({ blobs: { extents: {} } })
  await requireStores(dir, ['blobs/extents'])
  await t.rejects(requireStores(dir, ['blobs/extents', 'metadata/rows/CURRENT']), {
    code: 'DATA_MISSING',
    message: /metadata\/rows\/CURRENT is missing.*mounted/,
  })
  symlinkSync('metadata', join(dir, 'metadata')) // to itself
  await t.rejects(
    requireStores(dir, ['metadata/rows/CURRENT']),
    { code: 'DATA_UNUSABLE', message: /cannot be read: ELOOP/ },
    'what cannot be read is not missing',
  )
})

t.test('an upgrade of a directory without a store is refused', async (t) => {
  for (const yes of [false, true])
    await t.rejects(upgradeOf(t.testdir({ src: {} }), { yes }), {
      code: 'DATA_MISSING',
      message: /has no store/,
    })
  t.match(await upgradeOf(t.testdir({ blobs: {} }), { yes: true }), { opens: true }, 'before release.json')
})
