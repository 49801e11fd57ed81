import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { cases } from '../suite.ts'
import { examine, unzip } from '../unzip.ts'
import { nowSeconds, randomContent, sleep } from '../world.ts'

const run = promisify(execFile)

export const archives = cases('direct links opened', (test) => {
  test(
    'a folder comes as one archive of all its content',
    ['ZIP: content', 'ZIP: what is in it'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder({ name: 'holiday' })
      const below = await ann.folder({ in: folder.id, name: 'photos' })
      const empty = await ann.folder({ in: below.id, name: 'empty' })
      const big = randomContent(3_000_000)
      await ann.file({ in: folder.id, name: 'readme.txt', content: 'read me' })
      await ann.file({ in: folder.id, name: 'nothing', content: '' })
      await ann.file({ in: below.id, name: 'big.bin', content: big })
      void empty
      const link = await ann.link(folder.id)
      const answer = await world.request('GET', link.directLink)
      assert.equal(answer.header('content-length'), String(answer.body.length), 'the length is known before')
      assert.match(answer.header('content-disposition'), /^attachment; .*holiday\.zip/)
      await examine(answer.body)
      const entries = await unzip(answer.body)
      assert.deepEqual(
        [...entries.keys()].filter((name) => name !== 'holiday/' && name !== 'holiday/photos/').sort(),
        ['holiday/nothing', 'holiday/photos/big.bin', 'holiday/photos/empty/', 'holiday/readme.txt'],
      )
      assert.equal(entries.get('holiday/readme.txt')?.toString(), 'read me')
      assert.ok(entries.get('holiday/photos/big.bin')?.equals(big))
      assert.equal(
        (await world.request('HEAD', link.directLink)).header('content-length'),
        String(answer.body.length),
      )
    },
  )

  test(
    'names are kept where possible, and made distinct and safe otherwise',
    ['ZIP: names'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder({ name: 'names' })
      const files = [
        'a.txt',
        'a.txt',
        'a.txt',
        'A.TXT',
        'ünï 文件 🗂.txt',
        'con',
        'CON.txt',
        'dot.',
        'q?:*<>|".txt',
        '..\\..\\evil.txt',
        'trail ',
        '.hidden',
        'no ending',
        'no ending',
        'x'.repeat(255),
      ]
      for (const [at, name] of files.entries()) {
        const file = await ann.file({ in: folder.id, content: `${at}` })
        ;(await ann.update(file.id, 'name', name)).ok()
      }
      await ann.folder({ in: folder.id, name: 'a.txt' })
      const answer = await world.request('GET', (await ann.link(folder.id)).directLink)
      await examine(answer.body)
      const entries = await unzip(answer.body)
      const names = [...entries.keys()].filter((name) => name !== 'names/')
      assert.equal(names.length, files.length + 1)
      const contents = names.map((name) => entries.get(name)?.toString())
      for (const at of files.keys()) assert.ok(contents.includes(`${at}`), `${files[at]} is missing`)
      for (const expected of ['names/ünï 文件 🗂.txt', 'names/.hidden', 'names/no ending'])
        assert.ok(names.includes(expected), `${expected} in ${names}`)
      assert.ok(
        names.some((name) => /^names\/a \(2\)\.txt$/i.test(name)),
        names.join(),
      )
      assert.ok(
        names.some((name) => /^names\/no ending \(2\)$/.test(name)),
        names.join(),
      )
      const folded = names.map((name) => name.toLowerCase().replace(/\/$/, ''))
      assert.equal(
        new Set(folded).size,
        names.length,
        'names that differ only by case overwrite each other on Windows',
      )
      for (const name of names) {
        const last = name.replace(/\/$/, '').split('/').at(-1) as string
        assert.doesNotMatch(name, /[\\:*?"<>|\p{Cc}]/u, name)
        assert.ok(!name.split('/').some((part) => part === '..' || part === '.'), name)
        assert.doesNotMatch(last, /[. ]$/, name)
        assert.doesNotMatch(last, /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i, name)
      }
    },
  )

  test(
    'private and protected descendants are in it; expired and recycled are not',
    ['ZIP: what is in it'],
    async (world) => {
      const ann = await world.premium()
      await ann.operator({ recycleBin: true })
      const folder = await ann.folder({ name: 'all', public: true })
      for (const name of ['hidden', 'locked', 'expired', 'recycled']) {
        const below = await ann.folder({ in: folder.id, name })
        await ann.file({ in: below.id, name: 'x' })
        if (name === 'hidden') (await ann.update(below.id, 'public', false)).ok()
        if (name === 'locked') (await ann.update(below.id, 'password', 'secret')).ok()
        if (name === 'expired') (await ann.update(below.id, 'expiry', nowSeconds() + 2)).ok()
        if (name === 'recycled') (await ann.remove(below.id)).ok()
      }
      const link = await ann.link(folder.id)
      await sleep(3_100)
      const names = [...(await unzip((await world.request('GET', link.directLink)).body)).keys()].filter(
        (name) => name.endsWith('/x'),
      )
      assert.deepEqual(names.sort(), ['all/hidden/x', 'all/locked/x'])
    },
  )

  test('an empty folder is an empty archive', ['ZIP: empty'], async (world) => {
    const guest = await world.guest()
    const link = await guest.link((await guest.folder({ name: 'nothing' })).id)
    const answer = await world.request('GET', link.directLink)
    assert.equal(answer.code, 200)
    assert.deepEqual(
      [...(await unzip(answer.body)).keys()].filter((name) => name !== 'nothing/'),
      [],
    )
    await run('python3', ['--version']).catch(() => undefined)
  })

  test(
    'any range is available, and an interrupted download continues',
    ['ZIP: ranges and resume'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder({ name: 'resumed' })
      for (let at = 0; at < 12; at++)
        await ann.file({ in: folder.id, name: `part ${at}`, content: randomContent(70_000 + at * 1_111) })
      const link = await ann.link(folder.id)
      const whole = await world.request('GET', link.directLink)
      const size = whole.body.length
      assert.equal(whole.header('accept-ranges'), 'bytes')
      assert.match(whole.header('etag'), /^"[^"]+"$/)
      for (const first of [1, 29, 30, 69_999, 70_100, Math.floor(size / 2), size - 500, size - 1]) {
        const rest = await world.request('GET', link.directLink, {
          headers: { range: `bytes=${first}-`, 'if-range': whole.header('etag') },
        })
        assert.equal(rest.code, 206, `from ${first}`)
        assert.equal(rest.header('content-range'), `bytes ${first}-${size - 1}/${size}`)
        assert.ok(rest.body.equals(whole.body.subarray(first)), `from ${first}`)
      }
      const suffix = await world.request('GET', link.directLink, { headers: { range: 'bytes=-22' } })
      assert.ok(suffix.body.equals(whole.body.subarray(-22)))
      assert.equal(
        (await world.request('GET', link.directLink, { headers: { range: `bytes=${size}-` } })).code,
        416,
      )
      await ann.file({ in: folder.id, name: 'one more' })
      const changed = await world.request('GET', link.directLink)
      assert.notEqual(changed.header('etag'), whole.header('etag'))
      await examine(changed.body)
    },
  )

  test('deep trees and many files unpack', ['ZIP: content'], async (world) => {
    const ann = await world.premium()
    const folder = await ann.folder({ name: 'deep' })
    let at = folder.id
    for (let level = 0; level < 30; level++) at = (await ann.folder({ in: at, name: `level ${level}` })).id
    await ann.file({ in: at, name: 'bottom', content: 'bottom' })
    const ten = await ann.folder({ in: folder.id, name: 'ten' })
    await Promise.all(
      Array.from({ length: 10 }, (_, n) => ann.file({ in: ten.id, name: `${n}`, content: `${n}` })),
    )
    const hundred = await ann.folder({ in: folder.id, name: 'hundred' })
    for (let copy = 0; copy < 10; copy++) (await ann.copy([ten.id], hundred.id)).ok()
    for (let copy = 0; copy < 9; copy++) (await ann.copy([hundred.id], folder.id)).ok()
    const answer = await world.request('GET', (await ann.link(folder.id)).directLink)
    await examine(answer.body)
    const entries = await unzip(answer.body)
    assert.equal([...entries.keys()].filter((name) => !name.endsWith('/')).length, 1 + 10 + 10 * 100)
    assert.equal([...entries.values()].filter((content) => content.toString() === 'bottom').length, 1)
  })
})
