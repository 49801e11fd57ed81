/** gofile-tui: a terminal program that uploads, by curl where there is one. */
import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { digestsOf, largeBytes, md5, names, writeTree } from '../files.ts'
import { type Client, pinned } from '../steps.ts'
import { type Item, urls } from '../world.ts'

const driver = fileURLToPath(new URL('../drivers/use_gofile_tui.py', import.meta.url))

export const gofileTui: Client = {
  name: 'gofile-tui',
  version: pinned('gofile-tui'),
  async play({ person, world, full, step }) {
    const tree = {
      [names.plain]: 'report',
      [names.spaced]: 'spaced',
      [names.foreign]: 'foreign',
      'large.bin': largeBytes(full),
    }
    const files = join(person.home, 'files')
    await writeTree(files, tree)
    const { token, rootFolder } = await world.account('guest')
    const program = join(world.tools.python, 'gofile-tui/bin/gofile-tui')
    /** It keeps its account and its links in its working folder; resolves with the links. */
    const run = async (
      folder: string,
      uploads: string[],
      args: string[],
      env: Record<string, string> = {},
    ) => {
      const cwd = join(person.home, folder)
      await mkdir(cwd, { recursive: true })
      const paths = uploads.map((name) => join(files, name))
      const driven = ['-B', driver, program, String(uploads.length), ...args, ...paths]
      const said = await person.python('gofile-tui', 'python', driven, {
        cwd,
        env: { TERM: 'xterm-256color', ...env },
      })
      return said.split('\n').filter((line) => line.includes(' | '))
    }
    /** The folder that it made last. */
    const newest = async (): Promise<Item> =>
      (await world.list(rootFolder, token)).filter(({ name }) => name === 'Uploads').at(-1) as Item

    await step('uploads files without a token, and shows a link of each', async () => {
      const lines = await run('guest', Object.keys(tree), [])
      const code = new RegExp(`^.* \\| ${urls.web}/d/([A-Za-z0-9]{8})$`)
      const codes = new Set(lines.map((line) => code.exec(line)?.[1]))
      assert.equal(codes.size, 1, lines.join('\n'))
      const visitor = (await world.account('guest')).token
      const shared = await world.children([...codes][0] as string, visitor)
      assert.deepEqual(
        Object.fromEntries([...shared.values()].map((item) => [item.name, item.md5]).sort()),
        digestsOf(tree),
      )
      const large = shared.get('large.bin') as Item
      assert.equal(md5(await world.bytes(large.link, visitor)), md5(tree['large.bin'] as Buffer))
    })
    await step('protects what it uploads with a password', async () => {
      await run('locked', [names.spaced], ['--password', 'geheim'], { GOFILE_TOKEN: token })
      const folder = await newest()
      assert.equal(folder.password, true)
      const visitor = (await world.account('guest')).token
      await assert.rejects(world.children(folder.code, visitor), /error-passwordRequired/)
    })
    await step('uploads into a private folder', async () => {
      await run('private', [names.plain], ['--private'], { GOFILE_TOKEN: token })
      const folder = await newest()
      assert.equal(folder.public, false)
      assert.deepEqual([...(await world.children(folder.id, token)).keys()], [names.plain])
    })
    await step('uploads into a folder that is there', async () => {
      const folder = await world.folder('there', { token, folderId: rootFolder })
      await run('there', [names.plain], ['--folder-id', folder.id], { GOFILE_TOKEN: token })
      assert.deepEqual([...(await world.children(folder.id, token)).keys()], [names.plain])
    })
  },
}
