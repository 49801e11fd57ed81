/** rclone's own gofile backend: copy, sync, check, move, cat and other common commands. */
import assert from 'node:assert/strict'
import { rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { digests, digestsOf, largeBytes, writeTree } from '../files.ts'
import type { Client } from '../steps.ts'

const modTime = new Date('2001-02-03T04:05:06Z')
/** Fills the answers to copies and moves, where it looks for the new ids. */
const preferring = ['--header', 'Prefer: return=representation']

export const rclone: Client = {
  name: 'rclone',
  version: async (person) =>
    /rclone v?(\S+)/.exec(await person.run(person.tools.rclone, ['version']))?.[1] ?? 'unknown',
  async play({ person, world, full, step, clientsOwn }) {
    const account = await world.account('premium')
    const config = join(person.home, 'rclone.conf')
    await writeFile(config, `[remote]\ntype = gofile\naccess_token = ${account.token}\n`)
    const run = (args: string[], options: { input?: string } = {}) =>
      person.run(person.tools.rclone, args, { ...options, env: { RCLONE_CONFIG: config } })
    const filesIn = async (remote: string, ...flags: string[]) =>
      (await run(['lsf', '-R', '--files-only', remote, ...flags]))
        .split('\n')
        .filter((line) => line !== '')
        .sort()
    const entry = async (remote: string) =>
      (JSON.parse(await run(['lsjson', remote])) as { ModTime: string; Size: number }[])[0]
    const calls = (host: string) => person.calls.filter((call) => call.host.startsWith(host)).length

    const many = full ? 1_100 : 12
    const tree: Record<string, string | Uint8Array> = {
      'plain.txt': 'plain',
      'empty.txt': '',
      'letters/a b.txt': 'a b',
      'letters/ünï 文件 🗂.txt': 'unicode',
      'letters/odd:name?*<>|".txt': 'odd',
      'letters/deep/er/and/deeper/still/further/bottom.txt': 'bottom',
      'numbers/big.bin': largeBytes(full),
      ...Object.fromEntries(
        Array.from({ length: many }, (_, number) => [`many/file-${number}`, `content ${number}`]),
      ),
    }
    const local = join(person.home, 'local')
    const lay = async (files: Record<string, string | Uint8Array>) => {
      await rm(local, { recursive: true, force: true })
      await writeTree(local, files)
      for (const path of Object.keys(files)) await utimes(join(local, path), modTime, modTime)
    }
    await lay(tree)

    await step('copies a tree up, finds it whole, and has nothing to do a second time', async () => {
      await run(['copy', local, 'remote:backup'])
      await run(['check', local, 'remote:backup'])
      assert.deepEqual(await filesIn('remote:backup'), Object.keys(tree).sort())
      const before = calls('upload')
      assert.equal(before, Object.keys(tree).length)
      await run(['copy', local, 'remote:backup'])
      assert.equal(calls('upload'), before, 'sizes and times are as they were sent')
    })
    await step('keeps times to the second', async () => {
      const { ModTime, Size } = (await entry('remote:backup/plain.txt')) ?? {}
      assert.deepEqual([Date.parse(ModTime ?? ''), Size], [modTime.getTime(), 5])
    })
    await step('copies it down again, byte by byte', async () => {
      const down = join(person.home, 'down')
      await run(['copy', 'remote:backup', down])
      assert.deepEqual(await digests(down), digestsOf(tree))
      assert.equal((await stat(join(down, 'plain.txt'))).mtime.getTime(), modTime.getTime())
      await run(['check', '--download', local, 'remote:backup'])
    })
    await step('lists in small pages and in one sweep', async () => {
      const chunk = full ? '100' : '3'
      assert.deepEqual(await filesIn('remote:backup', '--gofile-list-chunk', chunk), Object.keys(tree).sort())
      assert.deepEqual(
        await filesIn('remote:backup', '--fast-list', '--gofile-list-chunk', chunk),
        Object.keys(tree).sort(),
      )
    })
    await step('reads from an offset', async () => {
      assert.equal(await run(['cat', 'remote:backup/plain.txt']), 'plain')
      assert.equal(await run(['cat', 'remote:backup/plain.txt', '--offset', '2']), 'ain')
      assert.equal(await run(['cat', 'remote:backup/plain.txt', '--offset', '1', '--count', '3']), 'lai')
      assert.equal(await run(['cat', 'remote:backup/plain.txt', '--tail', '2']), 'in')
    })
    const changed: Record<string, string | Uint8Array> = {
      ...tree,
      'plain.txt': 'changed!',
      'new/one.txt': 'new',
    }
    delete changed['empty.txt']
    delete changed['many/file-3']
    await step('syncs: adds, changes and removes', async () => {
      await lay(changed)
      await utimes(join(local, 'plain.txt'), modTime, new Date('2011-01-01T00:00:00Z'))
      await run(['sync', local, 'remote:backup'])
      await run(['check', local, 'remote:backup'])
      assert.deepEqual(await filesIn('remote:backup'), Object.keys(changed).sort())
      assert.equal(await run(['cat', 'remote:backup/plain.txt']), 'changed!')
    })
    await step('sets a changed time alone without a new upload', async () => {
      const before = calls('upload')
      await utimes(join(local, 'letters/a b.txt'), modTime, new Date('2012-12-12T12:12:12Z'))
      await run(['sync', local, 'remote:backup'])
      assert.equal(calls('upload'), before)
      const { ModTime } = (await entry('remote:backup/letters/a b.txt')) ?? {}
      assert.equal(Date.parse(ModTime ?? ''), Date.parse('2012-12-12T12:12:12Z'))
    })
    await step('copies within the remote without a flag, at its second attempt', async () => {
      const before = [calls('store'), calls('upload')]
      await run(['copy', 'remote:backup/letters', 'remote:alone'])
      await run(['check', join(local, 'letters'), 'remote:alone'])
      assert.deepEqual([calls('store'), calls('upload')], before, 'no byte left the server')
    })
    await clientsOwn(
      'copies under another name within the remote without a flag',
      {
        why: `it looks for the new ids in an answer that the contract keeps empty; ${preferring.join(' ')} fills it`,
        shows: /failed to read result of copy/,
      },
      () => run(['copyto', 'remote:alone/a b.txt', 'remote:alone/deep/renamed.txt']),
    )
    await step('removes a folder', async () => {
      await run(['purge', 'remote:alone'])
      await assert.rejects(run(['lsf', 'remote:alone']))
    })
    await step(`copies and moves within the remote, with ${preferring.join(' ')}`, async () => {
      const before = [calls('store'), calls('upload')]
      await run(['copy', 'remote:backup', 'remote:second', ...preferring])
      await run(['check', local, 'remote:second'])
      await run(['move', 'remote:second', 'remote:third', ...preferring])
      await run(['check', local, 'remote:third'])
      assert.deepEqual(await filesIn('remote:second').catch(() => []), [])
      await run(['moveto', 'remote:third/plain.txt', 'remote:third/moved/renamed.txt', ...preferring])
      assert.ok((await filesIn('remote:third')).includes('moved/renamed.txt'))
      await run(['copyto', 'remote:third/moved/renamed.txt', 'remote:third/copied.txt', ...preferring])
      await run(['moveto', 'remote:third/many', 'remote:third/few', ...preferring])
      assert.ok((await filesIn('remote:third')).includes('few/file-1'))
      assert.deepEqual([calls('store'), calls('upload')], before, 'no byte left the server')
      assert.equal(await run(['cat', 'remote:third/copied.txt']), 'changed!')
    })
    await step('removes one file', async () => {
      await run(['deletefile', 'remote:third/copied.txt'])
      assert.ok(!(await filesIn('remote:third')).includes('copied.txt'))
      await assert.rejects(run(['deletefile', 'remote:third/copied.txt']))
      await run(['check', local, 'remote:backup'])
    })
    await step('accepts streams of unknown length, empty folders, touched files', async () => {
      await run(['rcat', 'remote:stream/in.txt'], { input: 'from a pipe' })
      assert.equal(await run(['cat', 'remote:stream/in.txt']), 'from a pipe')
      await run(['mkdir', 'remote:stream/empty'])
      assert.equal(await run(['lsf', 'remote:stream']), 'empty/\nin.txt\n')
      await run(['touch', 'remote:stream/in.txt', '--timestamp', '2020-02-02T02:02:02'])
      const { ModTime } = (await entry('remote:stream/in.txt')) ?? {}
      assert.equal(Date.parse(ModTime ?? ''), Date.parse('2020-02-02T02:02:02Z'))
    })
    await step('makes a direct link and removes it', async () => {
      const url = (await run(['link', 'remote:stream/in.txt'])).trim()
      assert.equal(await person.run('curl', ['-sSf', url]), 'from a pipe')
      await run(['link', 'remote:stream/in.txt', '--unlink'])
      assert.equal(await person.run('curl', ['-sS', '-o', 'gone', '-w', '%{http_code}', url]), '404')
    })
    await step('reports the usage', async () => {
      const about = JSON.parse(await run(['about', 'remote:', '--json'])) as { used: number; objects: number }
      const { statsCurrent } = (await world.api('GET', `/accounts/${account.id}`, {
        token: account.token,
      })) as { statsCurrent: { storage: number; fileCount: number } }
      assert.deepEqual([about.used, about.objects], [statsCurrent.storage, statsCurrent.fileCount])
    })
  },
}
