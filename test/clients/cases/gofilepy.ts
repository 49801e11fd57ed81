/** gofilepy: a command that uploads. */
import assert from 'node:assert/strict'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { digestsOf, largeBytes, md5, names, writeTree } from '../files.ts'
import { type Client, pinned } from '../steps.ts'
import type { Item } from '../world.ts'

export const gofilepy: Client = {
  name: 'gofilepy',
  version: pinned('gofilepy'),
  async play({ person, world, full, step }) {
    const large = largeBytes(full)
    const tree = { [names.foreign]: 'foreign', [names.quoted]: 'quoted', 'deep/er/large.bin': large }
    const files = join(person.home, 'files')
    await writeTree(files, tree)
    /** What it exported of an upload each. */
    const upload = async (args: string[], env: Record<string, string> = {}): Promise<Item[]> => {
      await person.python('gofilepy', 'gofilepy', ['--export', ...args], { env })
      const exported = (await readdir(person.home)).find((name) =>
        name.startsWith('gofile_export_'),
      ) as string
      const records = JSON.parse(await readFile(join(person.home, exported), 'utf8')) as {
        response: { data: Item }
      }[]
      await rm(join(person.home, exported))
      return records.map(({ response }) => response.data)
    }
    const digestsIn = (items: Item[]) => Object.fromEntries(items.map((item) => [item.name, item.md5]))
    const flat = { [names.foreign]: 'foreign', [names.quoted]: 'quoted', 'large.bin': large }

    await step('uploads a file without a token', async () => {
      const [sent] = await upload([join(files, names.quoted)])
      assert.deepEqual([sent?.name, sent?.md5], [names.quoted, md5('quoted')])
      assert.ok(sent?.downloadPage.startsWith('https://gofile.io/d/'))
      const kept = await world.children(sent?.parentFolder as string, sent?.guestToken as string)
      assert.equal(md5(await world.bytes(kept.get(names.quoted)?.link as string)), md5('quoted'))
    })
    await step('uploads a folder without a token', async () => {
      assert.deepEqual(digestsIn(await upload([files])), digestsOf(flat))
    })
    await step('uploads a folder into one folder of an account', async () => {
      const { token, rootFolder } = await world.account('guest')
      const sent = await upload(['--to-single-folder', files], { GOFILE_TOKEN: token })
      assert.deepEqual(digestsIn(sent), digestsOf(flat))
      const parents = new Set(sent.map(({ parentFolder }) => parentFolder))
      assert.equal(parents.size, 1)
      const inRoot = [...(await world.children(rootFolder, token)).values()]
      assert.deepEqual(
        inRoot.map(({ id }) => id),
        [...parents],
      )
    })
  },
}
