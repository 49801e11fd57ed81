/** gofilepy-api: a library of clients, folders and files. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { largeBytes, md5, names, writeTree } from '../files.ts'
import { type Client, pinned } from '../steps.ts'
import type { Item } from '../world.ts'

export const gofilepyApi: Client = {
  name: 'gofilepy-api',
  version: pinned('gofilepy-api'),
  async play({ person, world, full, step, clientsOwn }) {
    const driver = person.driver('gofilepy-api', 'use_gofilepy_api.py')
    const call = <T = Item>(name: string, args: Record<string, unknown>) => driver.call<T>(name, args)
    const large = largeBytes(full)
    const file = (name: string) => join(person.home, 'files', name)
    await writeTree(join(person.home, 'files'), {
      [names.plain]: 'report',
      [names.spaced]: 'spaced',
      [names.foreign]: 'foreign',
      [names.quoted]: 'quoted',
      'large.bin': large,
    })
    const { token, rootFolder } = await world.account('premium')
    let folder = {} as Item
    let sent = {} as Item

    await step('uploads without a token, and deletes with the token that came back', async () => {
      await call('connect', {})
      const guest = await call('upload', { path: file(names.foreign) })
      assert.deepEqual([guest.name, guest.md5], [names.foreign, md5('foreign')])
      await call('delete', { content: guest.id })
      assert.equal((await world.children(guest.parentFolder, guest.guestToken as string)).size, 0)
    })
    await step('chooses a server of its zone and finds the account', async () => {
      const found = await call<{ server: string; root: string }>('connect', { token, zone: 'eu' })
      assert.deepEqual(found, { server: 'upload-eu-par', root: rootFolder })
    })
    await step('makes a folder and uploads into it', async () => {
      folder = await call('create_folder', { name: names.quoted, parent: rootFolder })
      assert.equal(folder.name, names.quoted)
      for (const name of [names.plain, names.spaced, names.quoted, 'large.bin']) {
        sent = await call('upload', { path: file(name), folder: folder.id })
        assert.deepEqual([sent.name, sent.parentFolder], [name, folder.id])
      }
      assert.equal(sent.md5, md5(large))
    })
    await step('reads a folder', async () => {
      assert.equal((await call('get', { content: folder.id })).childrenCount, 4)
    })
    const lookingFor = 'it looks for `contents`, which the contract calls `children`'
    await clientsOwn('lists what is in a folder', { why: lookingFor, shows: /0 !== 4/ }, async () => {
      assert.equal((await call<string[]>('children', { content: folder.id })).length, 4)
    })
    await step('sets every option of a folder', async () => {
      const expiry = Math.floor(Date.now() / 1_000) + 86_400
      const options = { public: true, password: 'geheim', description: 'ünï', tags: ['a', 'b'], expiry }
      let now = {} as Item
      for (const [option, value] of Object.entries(options))
        now = await call('set_option', { content: folder.id, option, value })
      assert.deepEqual(
        [now.public, now.password, now.description, now.tags, now.expiry],
        [true, true, 'ünï', 'a,b', expiry],
      )
    })
    await step('copies', async () => {
      const to = await call('create_folder', { name: 'copies', parent: rootFolder })
      await call('copy', { content: sent.id, folder: to.id })
      const copied = (await world.children(to.id, token)).get('large.bin') as Item
      assert.equal(md5(await world.bytes(copied.link, token)), md5(large))
    })
    await step('makes a direct link and downloads by it', async () => {
      const got = await call<string>('download', { content: sent.id, folder: person.home })
      assert.equal(basename(got), 'large.bin')
      assert.equal(md5(await readFile(got)), md5(large))
    })
    await clientsOwn(
      'makes a direct link with a name and a password',
      { why: 'it sends them as two entries instead of `name:password`', shows: /error-auth/ },
      () => call('download', { content: sent.id, folder: person.home, username: 'ann', password: 'secret' }),
    )
    await clientsOwn('asks again about a file', { why: lookingFor, shows: /KeyError: 'contents'/ }, () =>
      call('reload', { content: sent.id }),
    )
    await step('deletes', async () => {
      await call('delete', { content: folder.id })
      assert.ok(!(await world.children(rootFolder, token)).has(names.quoted))
    })
  },
}
