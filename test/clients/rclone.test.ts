/** rclone's own gofile backend, unmodified, against the embedded service. */
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import { Standalone } from '../support/standalone.ts'
import { publicDownloadUrl, Rclone } from './rclone.ts'

// Includes building rclone on a machine that has none yet.
t.setTimeout(600_000)

const files: Record<string, string> = {
  'plain.txt': 'plain',
  'empty.txt': '',
  'letters/a b.txt': 'a b',
  'letters/ünï 文件 🗂.txt': 'unicode',
  'letters/odd:name?*<>|".txt': 'odd',
  'letters/deep/er/and/deeper/still/further/bottom.txt': 'bottom',
  'numbers/big.bin': 'x'.repeat(3_000_000),
  ...Object.fromEntries(
    Array.from({ length: 12 }, (_, number) => [`many/file-${number}`, `content ${number}`]),
  ),
}
const modTime = new Date('2001-02-03T04:05:06Z')

const folder = await mkdtemp(join(tmpdir(), 'holdfast-rclone-'))
const service = await Standalone.start({ settings: { HOLDFAST_PUBLIC_DOWNLOAD_URL: publicDownloadUrl } })
const account = (await post(`${service.api}/accounts`, {})) as { id: string; token: string }
await post(`${service.admin}/admin/accounts/${account.id}`, { tier: 'premium' })
const rclone = await Rclone.open(folder, { service, token: account.token })
t.teardown(async () => {
  await rclone.close()
  await service.stop()
  await rm(folder, { recursive: true, force: true })
})
t.comment(`names are led here by a ${rclone.way}`)

const local = join(folder, 'local')
await writeTree(local, files)

t.test('copy brings a tree up, check finds it whole, and a second copy has nothing to do', async (t) => {
  await rclone.run(['copy', local, 'remote:backup'])
  await rclone.run(['check', local, 'remote:backup'])
  t.strictSame(await remoteFiles('remote:backup'), Object.keys(files).sort())
  const uploads = () => rclone.proxy.passed.filter((line) => line.startsWith('upload.')).length
  const before = uploads()
  t.equal(before, Object.keys(files).length)
  await rclone.run(['copy', local, 'remote:backup'])
  t.equal(uploads(), before, 'sizes and times are as they were sent')
})

t.test('times are kept to the second', async (t) => {
  const [entry] = JSON.parse(await rclone.run(['lsjson', 'remote:backup/plain.txt'])) as {
    ModTime: string
    Size: number
  }[]
  t.equal(Date.parse(entry?.ModTime ?? ''), modTime.getTime())
  t.equal(entry?.Size, 5)
})

t.test('copy brings it down again, byte by byte', async (t) => {
  await rclone.run(['copy', 'remote:backup', join(folder, 'down')])
  t.strictSame(await readTree(join(folder, 'down')), files)
  t.equal((await stat(join(folder, 'down/plain.txt'))).mtime.getTime(), modTime.getTime())
  await rclone.run(['check', '--download', local, 'remote:backup'])
})

t.test('listing works in small pages and in one sweep', async (t) => {
  t.strictSame(await remoteFiles('remote:backup', '--gofile-list-chunk', '3'), Object.keys(files).sort())
  t.strictSame(
    await remoteFiles('remote:backup', '--fast-list', '--gofile-list-chunk', '2'),
    Object.keys(files).sort(),
  )
})

t.test('cat reads from an offset', async (t) => {
  t.equal(await rclone.run(['cat', 'remote:backup/plain.txt']), 'plain')
  t.equal(await rclone.run(['cat', 'remote:backup/plain.txt', '--offset', '2']), 'ain')
  t.equal(await rclone.run(['cat', 'remote:backup/plain.txt', '--offset', '1', '--count', '3']), 'lai')
  t.equal(await rclone.run(['cat', 'remote:backup/plain.txt', '--tail', '2']), 'in')
  t.equal((await rclone.run(['cat', 'remote:backup/numbers/big.bin', '--offset', '2999990'])).length, 10)
})

t.test('sync adds, changes and removes', async (t) => {
  const changed: Record<string, string> = { ...files, 'plain.txt': 'changed!', 'new/one.txt': 'new' }
  delete changed['empty.txt']
  delete changed['many/file-3']
  await rm(local, { recursive: true })
  await writeTree(local, changed)
  await utimes(join(local, 'plain.txt'), modTime, new Date('2011-01-01T00:00:00Z'))
  await rclone.run(['sync', local, 'remote:backup'])
  await rclone.run(['check', local, 'remote:backup'])
  t.strictSame(await remoteFiles('remote:backup'), Object.keys(changed).sort())
  t.equal(await rclone.run(['cat', 'remote:backup/plain.txt']), 'changed!')
})

t.test('a changed time alone is set without a new upload', async (t) => {
  const uploads = rclone.proxy.passed.filter((line) => line.startsWith('upload.')).length
  await utimes(join(local, 'letters/a b.txt'), modTime, new Date('2012-12-12T12:12:12Z'))
  await rclone.run(['sync', local, 'remote:backup'])
  t.equal(rclone.proxy.passed.filter((line) => line.startsWith('upload.')).length, uploads)
  const [entry] = JSON.parse(await rclone.run(['lsjson', 'remote:backup/letters/a b.txt'])) as {
    ModTime: string
  }[]
  t.equal(Date.parse(entry?.ModTime ?? ''), Date.parse('2012-12-12T12:12:12Z'))
})

t.test('copies and moves happen on the server', async (t) => {
  const downloads = () => rclone.proxy.passed.filter((line) => line.startsWith('store1.')).length
  const uploads = () => rclone.proxy.passed.filter((line) => line.startsWith('upload.')).length
  const before = [downloads(), uploads()]
  await rclone.runPreferring(['copy', 'remote:backup', 'remote:second'])
  await rclone.run(['check', local, 'remote:second'])
  await rclone.runPreferring(['move', 'remote:second', 'remote:third'])
  await rclone.run(['check', local, 'remote:third'])
  t.strictSame(await remoteFiles('remote:second').catch(() => []), [])
  await rclone.runPreferring(['moveto', 'remote:third/plain.txt', 'remote:third/moved/renamed.txt'])
  t.ok((await remoteFiles('remote:third')).includes('moved/renamed.txt'))
  await rclone.runPreferring(['copyto', 'remote:third/moved/renamed.txt', 'remote:third/copied.txt'])
  await rclone.runPreferring(['moveto', 'remote:third/many', 'remote:third/few'])
  t.ok((await remoteFiles('remote:third')).includes('few/file-1'))
  t.strictSame([downloads(), uploads()], before, 'no byte left the server')
  t.equal(await rclone.run(['cat', 'remote:third/copied.txt']), 'changed!')
})

t.test('deletefile removes one file, purge a folder', async (t) => {
  await rclone.run(['deletefile', 'remote:third/copied.txt'])
  t.notOk((await remoteFiles('remote:third')).includes('copied.txt'))
  await t.rejects(rclone.run(['deletefile', 'remote:third/copied.txt']))
  await rclone.run(['purge', 'remote:third'])
  await t.rejects(rclone.run(['lsf', 'remote:third']))
  await rclone.run(['check', local, 'remote:backup'], {})
})

t.test('streams of unknown length, empty folders, touched files', async (t) => {
  await rclone.run(['rcat', 'remote:stream/in.txt'], { input: 'from a pipe' })
  t.equal(await rclone.run(['cat', 'remote:stream/in.txt']), 'from a pipe')
  await rclone.run(['mkdir', 'remote:stream/empty'])
  t.equal(await rclone.run(['lsf', 'remote:stream']), 'empty/\nin.txt\n')
  await rclone.run(['touch', 'remote:stream/in.txt', '--timestamp', '2020-02-02T02:02:02'])
  const [entry] = JSON.parse(await rclone.run(['lsjson', 'remote:stream/in.txt'])) as { ModTime: string }[]
  t.equal(Date.parse(entry?.ModTime ?? ''), Date.parse('2020-02-02T02:02:02Z'))
})

t.test('link makes a direct link and takes it away', async (t) => {
  const url = (await rclone.run(['link', 'remote:stream/in.txt'])).trim()
  t.ok(url.startsWith(publicDownloadUrl), url)
  const here = url.replace(publicDownloadUrl, service.download)
  t.equal(await (await fetch(here)).text(), 'from a pipe')
  await rclone.run(['link', 'remote:stream/in.txt', '--unlink'])
  t.equal((await fetch(here)).status, 404)
})

t.test('about tells what is used', async (t) => {
  const about = JSON.parse(await rclone.run(['about', 'remote:', '--json'])) as {
    used: number
    objects: number
  }
  const details = (await (
    await fetch(`${service.api}/accounts/${account.id}?token=${account.token}`)
  ).json()) as {
    data: { statsCurrent: { storage: number; fileCount: number } }
  }
  t.strictSame(
    [about.used, about.objects],
    [details.data.statsCurrent.storage, details.data.statsCurrent.fileCount],
  )
})

async function post(url: string, json: unknown): Promise<unknown> {
  const answer = await fetch(url, {
    method: 'POST',
    body: JSON.stringify(json),
    headers: { 'content-type': 'application/json' },
  })
  const { status, data } = (await answer.json()) as { status: string; data: unknown }
  if (status !== 'ok') throw new Error(`${url} answered ${status}`)
  return data
}

async function remoteFiles(remote: string, ...flags: string[]): Promise<string[]> {
  const lines = await rclone.run(['lsf', '-R', '--files-only', remote, ...flags])
  return lines
    .split('\n')
    .filter((line) => line !== '')
    .sort()
}

async function writeTree(root: string, tree: Record<string, string>): Promise<void> {
  for (const [path, content] of Object.entries(tree)) {
    const file = join(root, path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, content)
    await utimes(file, modTime, modTime)
  }
}

async function readTree(root: string): Promise<Record<string, string>> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true })
  const read = entries
    .filter((entry) => entry.isFile())
    .map(async (entry): Promise<[string, string]> => {
      const file = join(entry.parentPath, entry.name)
      return [file.slice(root.length + 1), await readFile(file, 'utf8')]
    })
  return Object.fromEntries((await Promise.all(read)).sort())
}
