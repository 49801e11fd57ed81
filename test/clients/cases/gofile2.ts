/** gofile2: a library for the whole contract. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { digestsOf, largeBytes, md5, names, writeTree } from '../files.ts'
import { type Client, pinned } from '../steps.ts'
import type { Item } from '../world.ts'

export const gofile2: Client = {
  name: 'gofile2',
  version: pinned('gofile2'),
  async play({ person, world, full, step, clientsOwn }) {
    const driver = person.driver('gofile2', 'use_gofile2.py')
    const call = <T = Item>(method: string, args: Record<string, unknown>) =>
      driver.call<T>('call', { method, ...args })
    const account = await world.account('premium')
    const { token, rootFolder } = account
    const file = (name: string) => join(person.home, 'files', name)
    const large = largeBytes(full)
    const tree = { [names.plain]: 'report', 'empty.bin': '', 'large.bin': large }
    await writeTree(join(person.home, 'files'), { ...tree, [names.quoted]: 'quoted', [names.foreign]: 'ü' })

    await step('uploads without a token, and again with the returned token', async () => {
      const first = await call('upload', { file: file(names.plain) })
      assert.equal(first.md5, md5('report'))
      assert.ok(first.guestToken)
      const again = await call('upload', {
        file: file('large.bin'),
        folderId: first.parentFolder,
        token: first.guestToken,
      })
      assert.equal(again.parentFolder, first.parentFolder)
      assert.equal(again.md5, md5(large))
      const kept = await world.children(first.parentFolder, first.guestToken as string)
      assert.equal(
        md5(await world.bytes(kept.get('large.bin')?.link as string, first.guestToken)),
        md5(large),
      )
    })

    await driver.call('use', { value: token })
    let folder = {} as Item
    let other = {} as Item
    await step('makes folders', async () => {
      folder = await call('create_folder', {
        parentFolderId: rootFolder,
        folderName: names.quoted,
        public: true,
      })
      assert.equal(folder.name, names.quoted)
      other = await call('create_folder', { parentFolderId: rootFolder })
      assert.ok(other.name)
    })
    await step('uploads a folder', async () => {
      await writeTree(join(person.home, 'tree'), tree)
      const sent = await call<Item[]>('upload_folder', {
        path: join(person.home, 'tree'),
        folderId: folder.id,
        delay: 0,
      })
      assert.deepEqual(Object.fromEntries(sent.map((item) => [item.name, item.md5])), digestsOf(tree))
    })
    await step('uploads through each region that it knows', async () => {
      for (const region of ['eu-par', 'na-phx', 'ap-sgp', 'ap-hkg', 'ap-tyo', 'sa-sao'])
        await call('upload', { file: file(names.plain), server: `upload-${region}`, folderId: other.id })
    })
    await clientsOwn(
      'uploads a name with spaces, quotes and foreign letters',
      {
        why: 'aiohttp sends the name percent-encoded, as no browser does; it is kept as it was sent',
        shows: /%E6%96%87/,
      },
      async () => {
        const sent = await call('upload', { file: file(names.foreign), folderId: other.id })
        assert.equal(sent.md5, md5('ü'))
        assert.equal(sent.name, names.foreign)
      },
    )
    await step('lists, and reads one file', async () => {
      const listed = await call('get_content', { contentId: folder.id })
      const children = Object.values(listed.children ?? {})
      assert.deepEqual(Object.fromEntries(children.map((item) => [item.name, item.md5])), digestsOf(tree))
      const one = children.find(({ name }) => name === names.plain) as Item
      assert.equal((await call('get_content', { contentId: one.id })).md5, md5('report'))
      for (const { name, link } of children)
        assert.equal(md5(await world.bytes(link, token)), digestsOf(tree)[name])
    })
    await step('renames, describes, tags', async () => {
      const attributes = { name: names.foreign, description: '**words**', tags: 'one, two' }
      for (const [attribute, attributeValue] of Object.entries(attributes))
        await call('update_content', { contentId: folder.id, attribute, attributeValue })
      const now = await call('get_content', { contentId: folder.code })
      assert.deepEqual([now.name, now.description, now.tags], [names.foreign, '**words**', 'one,two'])
    })
    await step('sets a password, and reads with it as another account', async () => {
      await call('update_content', { contentId: folder.id, attribute: 'password', attributeValue: 'geheim' })
      const visitor = (await world.account('premium')).token
      await assert.rejects(
        call('get_content', { contentId: folder.code, token: visitor }),
        /error-passwordRequired/,
      )
      const password = '1ab0dd7cf7be1abdd3ee0f1dc2bf4a9d64f01aa0ecfbcd5ecf5a1fd9d5ea5f45'
      await assert.rejects(
        call('get_content', { contentId: folder.code, token: visitor, password }),
        /error-passwordWrong/,
      )
      const right = Buffer.from(
        await crypto.subtle.digest('SHA-256', new TextEncoder().encode('geheim')),
      ).toString('hex')
      const read = await call('get_content', { contentId: folder.code, token: visitor, password: right })
      assert.equal(Object.keys(read.children ?? {}).length, 3)
      await call('update_content', { contentId: folder.id, attribute: 'password', attributeValue: '' })
    })
    await step('searches', async () => {
      const hits = await call<Record<string, Item>>('search_content', {
        contentId: rootFolder,
        searchedString: 'LARGE',
      })
      assert.deepEqual(
        Object.values(hits).map(({ name }) => name),
        ['large.bin'],
      )
    })
    await step('copies, moves and imports', async () => {
      const [first] = Object.values((await call('get_content', { contentId: folder.id })).children ?? {})
      await call('copy_content', { contentsId: folder.id, folderId: other.id })
      const copied = (await world.children(other.id, token)).get(names.foreign) as Item
      assert.notEqual(copied.id, folder.id)
      await call('move_content', { contentsId: copied.id, folderId: rootFolder })
      assert.ok((await world.children(rootFolder, token)).has(names.foreign))
      const shared = await world.account('premium')
      const result = await call<Record<string, { status: string; data: { id: string } }>>('import_content', {
        contentsId: first?.id,
        token: shared.token,
      })
      assert.equal(result[first?.id as string]?.status, 'ok')
    })
    await step('makes, changes and removes a direct link, and reads by it', async () => {
      const sent = await call('upload', { file: file('large.bin'), folderId: other.id })
      const made = await call<{ id: string; directLink: string }>('create_direct_link', {
        contentId: sent.id,
        auth: ['ann:secret'],
      })
      const refused = await person.run('curl', [
        '-sS',
        '-o',
        'refused',
        '-w',
        '%{http_code}',
        made.directLink,
      ])
      assert.equal(refused, '401')
      await person.run('curl', ['-sSf', '-u', 'ann:secret', '-o', 'got', made.directLink])
      assert.equal(md5(await readFile(join(person.home, 'got'))), md5(large))
      await call('update_direct_link', { contentId: sent.id, directLinkId: made.id })
      await person.run('curl', ['-sSf', '-o', 'got', made.directLink])
      await call('delete_direct_link', { contentId: sent.id, directLinkId: made.id })
      assert.equal(
        await person.run('curl', ['-sS', '-o', 'gone', '-w', '%{http_code}', made.directLink]),
        '404',
      )
    })
    await step('reads the account, deletes, and resets the token', async () => {
      const { id } = await call('get_account_id', {})
      assert.equal(id, account.id)
      assert.equal((await call('get_account', { accountId: id })).rootFolder, rootFolder)
      await call('delete_content', { contentId: `${folder.id},${other.id}` })
      const left = await world.children(rootFolder, token)
      assert.ok(![...left.values()].some((item) => item.id === folder.id || item.id === other.id))
      await call('reset_token', { accountId: id })
      await assert.rejects(call('get_account_id', {}), /error-token/)
    })
    await step('is refused a listing by a guest, as the contract says', async () => {
      const guest = await world.account('guest')
      await assert.rejects(
        call('get_content', { contentId: guest.rootFolder, token: guest.token }),
        /error-notPremium/,
      )
    })
  },
}
