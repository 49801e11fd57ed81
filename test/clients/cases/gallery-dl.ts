/** gallery-dl: a command that downloads the content of a link. */
import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { digests, md5, names } from '../files.ts'
import { share } from '../shared.ts'
import { type Client, pinned } from '../steps.ts'
import { urls } from '../world.ts'

export const galleryDl: Client = {
  name: 'gallery-dl',
  version: pinned('gallery-dl'),
  async play({ person, world, full, step }) {
    const { folder, files, inner, innerFiles, locked, file } = await share(world, {
      full,
      many: full ? 300 : 20,
    })
    const run = (...args: string[]) => person.python('gallery-dl', 'gallery-dl', args)
    const got = async () => {
      const kept = await digests(join(person.home, 'gallery-dl/gofile')).catch(() => ({}))
      await rm(join(person.home, 'gallery-dl'), { recursive: true, force: true })
      return kept
    }
    const below = (folderName: string, of: Record<string, string>) =>
      Object.fromEntries(Object.entries(of).map(([name, digest]) => [`${folderName}/${name}`, digest]))
    const expected = {
      ...below(`${folder.name} (${folder.code})`, files),
      ...below(`${inner.name} (${inner.code})`, innerFiles),
    }

    await step('downloads a folder and the folder within by its link', async () => {
      await run(`${urls.web}/d/${folder.code}`)
      assert.deepEqual(await got(), sorted(expected))
    })
    await step('downloads a folder by its id', async () => {
      await run(`${urls.web}/d/${inner.id}`)
      assert.deepEqual(await got(), sorted(below(`${inner.name} (${inner.code})`, innerFiles)))
    })
    await step('lists the links of a folder', async () => {
      const lines = (await run('--get-urls', `${urls.web}/d/${inner.code}`)).trim().split('\n')
      assert.equal(lines.length, Object.keys(innerFiles).length)
      for (const line of lines) assert.ok(line.startsWith(`${urls.download}/download/`), line)
    })
    await step('downloads one file by its link', async () => {
      await run(`${urls.web}/d/${file.code}`)
      assert.deepEqual(await got(), below(`${file.name} (${file.code})`, { [names.quoted]: md5('quoted') }))
    })
    await step('downloads a folder that has a password, and is refused without it', async () => {
      await assert.rejects(run(`${urls.web}/d/${locked.code}`), /401 Unauthorized/)
      assert.deepEqual(await got(), {})
      await run('-o', 'password=geheim', `${urls.web}/d/${locked.code}`)
      assert.deepEqual(await got(), { [`locked (${locked.code})/secret.txt`]: md5('secret') })
    })
    await step('reports an unknown link', async () => {
      await assert.rejects(run(`${urls.web}/d/aaaaaaaa`), /404 Not Found/)
    })
  },
}

function sorted(entries: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(entries).sort())
}
