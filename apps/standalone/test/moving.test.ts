/** Directories become folders of accounts, and accounts directories, by the operator's program. */
import { createHash, randomBytes } from 'node:crypto'
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { call, dataDir, operator, startHere } from './run.ts'

const long = '😀'.repeat(200)

/** Path → time and digest, of everything below. */
function described(directory: string): Record<string, string> {
  const entries = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((path) => !path.startsWith('.holdfast'))
    .sort()
  return Object.fromEntries(
    entries.map((path) => {
      const stats = lstatSync(join(directory, path))
      const what = stats.isFile()
        ? createHash('md5')
            .update(readFileSync(join(directory, path)))
            .digest('hex')
        : 'folder'
      return [path, `${what} ${Math.floor(stats.mtimeMs / 1000)}`]
    }),
  )
}

/** A tree with times of its own. */
function sourceIn(directory: string): string {
  const source = join(directory, 'photos')
  const folders = ['', '2019', '2019/summer', '2019/empty', 'twice']
  for (const folder of folders) mkdirSync(join(source, folder), { recursive: true })
  const files: Record<string, Buffer> = {
    'a.txt': Buffer.from('a'),
    'empty.bin': Buffer.alloc(0),
    '2019/large.bin': randomBytes(3_000_000),
    '2019/summer/Ünïcode 1.txt': Buffer.from('b'),
    'twice/one.txt': Buffer.from('same content'),
    'twice/two.txt': Buffer.from('same content'),
  }
  for (let n = 0; n < 60; n++) files[`2019/summer/${n}.txt`] = Buffer.from(`file ${n}`)
  for (const [path, bytes] of Object.entries(files)) writeFileSync(join(source, path), bytes)
  const entries = [...Object.keys(files), ...folders.toReversed()]
  for (const [at, path] of entries.entries())
    utimesSync(join(source, path), 1_000_000_000 + at, 1_000_000_000 + at)
  return source
}

t.test('a directory is imported and exported, with names, times and contents', async (t) => {
  const source = sourceIn(dataDir(t))
  const dir = dataDir(t)
  const service = await startHere(dir)
  t.teardown(() => service.close())
  const { admin, api, upload } = service.addresses
  const ctl = (...words: string[]) => operator([...words, '--admin', admin])

  const before = described(source)
  symlinkSync('/etc/passwd', join(source, 'link'))
  const first = await ctl('import', source)
  t.match(first, {
    code: 0,
    text: /the guest \S+ with the token \S+/,
    answer: { files: 66, folders: 5, present: 0, leftOut: [{ why: 'a symbolic link' }] },
  })
  const { account, folder } = first.answer
  const { data: status } = await call(`${admin}/admin/status`)
  t.equal(status.store.blobs, 65, 'equal contents are stored once')

  const target = join(dataDir(t), 'export')
  t.match(await ctl('export', account, target), { code: 0, answer: { files: 66, folders: 5, damaged: 0 } })
  t.strictSame(described(join(target, 'photos')), before)

  // a repetition takes what is new alone
  writeFileSync(join(source, '2019/new\ttab.txt'), 'new')
  t.match(await ctl('import', source, '--account', account), {
    code: 0,
    answer: {
      ...{ files: 1, folders: 0, present: 66, folder },
      renamed: [{ path: join(source, '2019/new\ttab.txt'), name: 'newtab.txt' }],
    },
  })
  t.match(await ctl('import', join(source, 'twice'), '--account', account, '--folder', folder), {
    code: 0,
    answer: { files: 2, folder },
  })

  // names that are there twice, or too long for a file system, are shortened the same way each time
  const token = /token (\S+):/.exec(first.text)?.[1] as string
  for (const name of ['one.txt', `${long}.txt`]) {
    const body = new FormData()
    body.append('folderId', folder)
    body.append('file', new Blob([name]), name)
    await call(`${upload}/uploadfile`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body,
    })
  }
  truncateSync(join(target, 'photos/a.txt'), 0)
  writeFileSync(join(target, 'photos/2019/summer/7.txt'), 'FILE 7')
  const again = await ctl('export', account, target)
  t.match(again, { code: 0, answer: { files: 7, present: 64 } }, 'what differs is copied again')
  const renamed = again.answer.renamed.toSorted((one: { path: string }) =>
    one.path.includes('one') ? -1 : 1,
  )
  t.match(renamed, [
    { path: 'photos/one (2).txt', name: 'one.txt' },
    { path: /^photos\/(😀){62}\.txt$/u, name: `${long}.txt` },
  ])
  t.match(await ctl('export', account, target), { code: 0, answer: { files: 0, present: 71 } })
  t.equal(described(join(target, 'photos'))['a.txt'], before['a.txt'])

  // what is blocked, and what is no place of an import or export
  await ctl('block', 'content', createHash('md5').update('blocked').digest('hex'))
  writeFileSync(join(source, 'blocked.txt'), 'blocked')
  const blocked = await ctl('import', source, '--account', account)
  t.match(blocked.answer.leftOut.at(-1), { path: /blocked\.txt$/, why: 'its content is blocked' })
  const link = join(source, '..', 'link')
  symlinkSync(dir, link)
  const accounts = async () => /^holdfast_accounts_made_total \d+/m.exec(await service.metrics.metrics())?.[0]
  const accountsBefore = await accounts()
  t.ok(accountsBefore)
  for (const [words, text] of [
    [['import', join(source, 'a.txt')], /is no directory/],
    [['import', join(source, 'none')], /cannot be read/],
    [['import', dir], /in the data directory/],
    [['import', link], /in the data directory/],
    [['import', dirname(dir)], /the data directory is in/],
    [['export', account, join(link, 'new', 'inside')], /in the data directory/],
    [['import', source, '--account', 'ann@example.org'], /there is no account ann/],
    [['export', account, join(dir, 'inside')], /in the data directory/],
    [['export', account, source], /neither empty nor an export/],
  ] as const)
    t.match(await ctl(...words), { code: 1, text }, words.join(' '))
  t.equal(await accounts(), accountsBefore, 'no guest was made for nothing')

  // a directory below the deepest folder is left out, everything else is taken
  const deep = join(dataDir(t), 'deep')
  mkdirSync(join(deep, ...Array.from({ length: 130 }, () => 'd')), { recursive: true })
  writeFileSync(join(deep, 'top.txt'), 'top')
  const shallow = await ctl('import', deep)
  t.match(shallow, { code: 0, answer: { files: 1, folders: 128, leftOutCount: 1 } })
  t.match(shallow.answer.leftOut, [{ path: /(\/d){128}$/, why: 'it would be deeper than 128 folders' }])

  // a full account says what to do, and a repetition continues
  await ctl('account', 'limits', account, '--contents', '75')
  for (let n = 0; n < 5; n++) writeFileSync(join(source, `more ${n}.txt`), `more ${n}`)
  t.match(await ctl('import', source, '--account', account), { code: 1, text: /ctl account limits/ })
  await ctl('account', 'limits', account, '--contents', 'none')
  const { answer } = await ctl('import', source, '--account', account)
  t.equal(answer.files + answer.present, 72)
  const listing = await call(`${api}/accounts/${account}`, { headers: { authorization: `Bearer ${token}` } })
  t.equal(listing.data.statsCurrent.fileCount, 76)

  const accountsThen = await accounts()
  const slow = { target: join(dataDir(t), 'slow'), bytesPerSecond: 1 }
  const headers = { 'content-type': 'application/json' }
  await call(`${admin}/admin/backup`, { method: 'POST', headers, body: JSON.stringify(slow) })
  t.match(await ctl('import', source), { code: 1, text: /the backup of .*slow runs/ })
  t.equal(await accounts(), accountsThen, 'no guest was made beside another run')
})

t.test('a file that cannot be read from the store is left out of an export, and named', async (t) => {
  const source = sourceIn(dataDir(t))
  const dir = dataDir(t)
  const first = await startHere(dir)
  const { account } = (await operator(['import', source, '--admin', first.addresses.admin])).answer
  await first.close()
  const extents = join(dir, 'blobs/extents')
  const large = readFileSync(join(source, '2019/large.bin')).subarray(1_500_000, 1_500_064)
  for (const name of readdirSync(extents)) {
    const bytes = readFileSync(join(extents, name))
    const at = bytes.indexOf(large)
    if (at < 0) continue
    bytes.fill(0, at, at + large.length)
    writeFileSync(join(extents, name), bytes)
  }
  const second = await startHere(dir)
  t.teardown(() => second.close())
  const target = join(dataDir(t), 'export')
  t.match(await operator(['export', account, target, '--admin', second.addresses.admin]), {
    code: 1,
    answer: { damaged: 1, damagedFiles: ['photos/2019/large.bin'] },
  })
  t.equal(readdirSync(join(target, 'photos/2019')).includes('large.bin'), false)
})
