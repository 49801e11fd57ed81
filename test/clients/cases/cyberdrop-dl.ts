/**
 * cyberdrop-dl-patched: a command that downloads the content of links, with few concurrent calls.
 */
import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { digests, md5 } from '../files.ts'
import { share } from '../shared.ts'
import { type Client, pinned } from '../steps.ts'
import { type Item, urls } from '../world.ts'

export const cyberdropDl: Client = {
  name: 'cyberdrop-dl-patched',
  version: pinned('cyberdrop-dl-patched'),
  async play({ person, world, full, step, clientsOwn }) {
    const { owner, folder, files, innerFiles, locked } = await share(world, { full, many: full ? 150 : 2 })
    const singles = await world.folder('singles', { token: owner.token, folderId: owner.rootFolder })
    const single = (name: string) => world.upload(name, name, { token: owner.token, folderId: singles.id })
    const byCode = await single('by code.txt')
    const byAddress = await single("by it's address ü.txt")
    const byPages = await single('by the address of the pages.txt')
    /** It cleans names and sorts into its own folders: bytes are compared. */
    const download = async (...links: string[]): Promise<string[]> => {
      const said = await person.python('cyberdrop-dl-patched', 'cyberdrop-dl', ['download', ...links])
      const kept = Object.values(await digests(join(person.home, 'downloads')))
      await rm(join(person.home, 'downloads'), { recursive: true, force: true })
      assert.match(said, /Scrape Errors:\s+INFO\s+None/, said)
      assert.match(said, /Download Errors:\s+INFO\s+None/, said)
      return kept.sort()
    }
    const address = (host: string, { id, name }: Item) =>
      `${host}/download/web/${id}/${encodeURIComponent(name)}`

    // In one run: it takes seconds to start, and then makes four calls in ten seconds.
    await step(
      'downloads a folder, the folder within, one with a password, and single files by a link and by an address on the download host',
      async () => {
        const links = [
          `${urls.web}/d/${folder.code}`,
          `${urls.web}/d/${locked.code}?password=geheim`,
          `${urls.web}/d/${byCode.code}`,
          address(urls.download, byAddress),
        ]
        assert.deepEqual(
          await download(...links),
          [
            ...Object.values(files),
            ...Object.values(innerFiles),
            ...['secret', byCode.name, byAddress.name].map((content) => md5(content)),
          ].sort(),
        )
      },
    )
    if (full)
      await clientsOwn(
        'downloads a file by an address that gives its bytes at once',
        {
          why: 'it needs a redirect to a page, also from an address with its account',
          shows: /Unknown: 1/,
        },
        () => download(address(urls.web, byPages)),
      )
  },
}
