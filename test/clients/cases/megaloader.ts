/** megaloader: a library that lists the files behind a link. */
import assert from 'node:assert/strict'
import { md5, names } from '../files.ts'
import { share } from '../shared.ts'
import { type Client, pinned } from '../steps.ts'
import { urls } from '../world.ts'

interface LoadedFile {
  name: string
  md5: string
  folder: string
}

export const megaloader: Client = {
  name: 'megaloader',
  version: pinned('megaloader'),
  async play({ person, world, full, step, clientsOwn }) {
    const driver = person.driver('megaloader', 'use_megaloader.py')
    const load = (code: string, options: Record<string, string> = {}) =>
      driver.call<LoadedFile[]>('load', { url: `${urls.web}/d/${code}`, ...options })
    const digests = (files: LoadedFile[]) => Object.fromEntries(files.map((file) => [file.name, file.md5]))
    const { folder, files, locked, file, owner } = await share(world, { full, many: 0 })

    await step('loads a folder by its link', async () => {
      const loaded = await load(folder.code)
      assert.deepEqual(digests(loaded), files)
      assert.equal(loaded[0]?.folder, folder.name)
    })
    await step('loads a folder by its id', async () => {
      assert.deepEqual(digests(await load(folder.id)), files)
    })
    await step('loads a folder that has a password, and is refused without it', async () => {
      await assert.rejects(load(locked.code), /401/)
      await assert.rejects(load(locked.code, { password: 'wrong' }), /401/)
      assert.deepEqual(digests(await load(locked.code, { password: 'geheim' })), {
        'secret.txt': md5('secret'),
      })
    })
    await step("loads a folder of the person's own with their token", async () => {
      await world.api('PUT', `/contents/${folder.id}/update`, {
        token: owner.token,
        json: { attribute: 'public', attributeValue: false },
      })
      await assert.rejects(load(folder.code), /401/)
      assert.deepEqual(digests(await load(folder.code, { token: owner.token })), files)
    })
    const folders = { why: 'it knows folders alone', shows: /Unexpected children/ }
    await clientsOwn('loads one file by its link', folders, async () => {
      const loaded = await load(file.code, { token: owner.token })
      assert.deepEqual(digests(loaded), { [names.quoted]: md5('quoted') })
    })
  },
}
