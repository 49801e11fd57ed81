/** GofileIOUploader: a command that uploads folders and skips existing files. */
import assert from 'node:assert/strict'
import { readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { digestsOf, largeBytes, names, writeTree } from '../files.ts'
import { type Client, pinned } from '../steps.ts'
import type { Item } from '../world.ts'

export const gofileIoUploader: Client = {
  name: 'GofileIOUploader',
  version: pinned('GofileIOUploader'),
  async play({ person, world, full, step }) {
    const tree = {
      [names.plain]: 'report',
      [names.spaced]: 'spaced',
      [names.foreign]: 'foreign',
      [names.quoted]: 'quoted',
      'large.bin': largeBytes(full),
    }
    const local = join(person.home, 'A folder "of" 文件')
    const folderName = 'A folder "of" 文件'
    await writeTree(local, tree)
    const run = (...args: string[]) => person.python('GofileIOUploader', 'gofile-upload', args)
    const { token, rootFolder } = await world.account('guest')
    const remote = async () => {
      const folder = (await world.children(rootFolder, token)).get(folderName) as Item
      return { folder, children: await world.children(folder.id, token) }
    }
    const digestsThere = async () => {
      const { children } = await remote()
      return Object.fromEntries([...children.values()].map(({ name, md5 }) => [name, md5]).sort())
    }

    await step('uploads a file without a token', async () => {
      await run(join(local, names.foreign))
      const table = (await readdir(person.home)).find((name) =>
        /^gofile_upload_.*\.csv$/.test(name),
      ) as string
      const text = await readFile(join(person.home, table), 'utf8')
      assert.ok(text.includes(digestsOf(tree)[names.foreign] as string), text)
      assert.match(text, /\bok\b/)
      await rm(join(person.home, table))
    })
    await step('uploads a folder into one of its name, and corrects the names', async () => {
      await run('--token', token, local)
      assert.deepEqual(await digestsThere(), digestsOf(tree))
    })
    await step('skips what is there, and renames what has another name here', async () => {
      await rename(join(local, names.plain), join(local, 'renamed ü.txt'))
      await rm(join(person.home, '.config'), { recursive: true, force: true })
      const said = await run('--token', token, local)
      assert.match(said, /5\/5 files will be skipped/)
      assert.match(said, /Renamed 1\/5/)
      const { [names.plain]: report, ...others } = digestsOf(tree)
      assert.deepEqual(await digestsThere(), sorted({ ...others, 'renamed ü.txt': report as string }))
    })
    await step('makes a folder public and uploads through a zone', async () => {
      assert.equal((await remote()).folder.public, false)
      await writeTree(local, { 'another.txt': 'another' })
      await run('--token', token, '--public', '--zone', 'eu', local)
      const { folder, children } = await remote()
      assert.equal(folder.public, true)
      assert.equal(children.get('another.txt')?.size, 'another'.length)
    })
    await step('uploads a file into a folder that is named', async () => {
      await run('--token', token, '--folder', 'Andere Dateien', join(local, 'large.bin'))
      const folder = (await world.children(rootFolder, token)).get('Andere Dateien') as Item
      const kept = (await world.children(folder.id, token)).get('large.bin')
      assert.equal(kept?.md5, digestsOf(tree)['large.bin'])
    })
  },
}

function sorted(entries: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(entries).sort())
}
