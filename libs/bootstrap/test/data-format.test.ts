import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
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
  t.equal(await dataReleaseOf(dir), undefined)
  await signDataFormat(dir)
  t.match(await dataReleaseOf(dir), { format: current, version, commit })
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

t.test('a damaged note of the format is refused', async (t) => {
  for (const text of ['', '{', '{}', '{"format":"1"}', '{"format":0}', 'null']) {
    const dir = t.testdir({ 'release.json': text })
    await t.rejects(checkDataFormat(dir), { code: 'DATA_FORMAT', message: /damaged/ }, text)
  }
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
  t.match(await upgradeOf(t.testdir({ blobs: {} }), { yes: false }), { opens: true }, 'before release.json')
})
