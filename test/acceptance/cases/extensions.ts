/** Features beyond the contract, and the pages. */
import assert from 'node:assert/strict'
import type { Item } from '../answer.ts'
import { endpoints } from '../coverage.ts'
import { mailsTo, parseMail } from '../mails.ts'
import { cases } from '../suite.ts'
import { type CallOptions, eventually, filePart, newAddress, sha256, sleep } from '../world.ts'
import { regionCodes } from './uploads.ts'

export const extensions = cases('beyond the contract', (test) => {
  test('/openapi.json describes every endpoint of the contract', ['GET /openapi.json'], async (world) => {
    const answer = await world.call('GET', '/openapi.json')
    assert.equal(answer.code, 200)
    const document = JSON.parse(answer.text) as {
      openapi: string
      paths: Record<string, Record<string, { responses: object }>>
    }
    assert.match(document.openapi, /^3\./)
    const described = new Map(
      Object.entries(document.paths).map(([path, operations]) => [
        path.replace(/\{\w+\}/g, '{}'),
        operations,
      ]),
    )
    for (const endpoint of endpoints().filter((name) => /^(GET|POST|PUT|DELETE) /.test(name))) {
      const [method = '', path = ''] = endpoint.replace('{upload_url}', '').split(' ')
      const operation = described.get(path.replace(/\{\w+\}/g, '{}'))?.[method.toLowerCase()]
      assert.ok(operation, `${endpoint} is not described`)
      assert.ok(Object.keys(operation.responses).length > 0, `${endpoint} has no answers`)
    }
  })

  test(
    '/status, /regions and /servers need no token',
    ['GET /status', 'GET /regions', 'GET /servers'],
    async (world) => {
      ;(await world.call('GET', '/status')).ok()
      const { regions } = (await world.call('GET', '/regions')).ok<{
        regions: { code: string; uploadUrl: string }[]
      }>()
      assert.ok(regions.length > 0)
      for (const { code, uploadUrl } of regions) {
        assert.ok(regionCodes.includes(code), code)
        assert.ok(URL.canParse(uploadUrl), uploadUrl)
      }
      const { servers } = (await world.call('GET', '/servers')).ok<{
        servers: { name: string; zone: string }[]
      }>()
      assert.ok(servers.length > 0)
      for (const { name, zone } of servers) {
        assert.match(name, /^upload-[a-z]{2}-[a-z]{3}$/)
        assert.ok(zone.length > 0)
      }
    },
  )

  test('/health of every public host needs no token and ignores case', ['GET /health'], async (world) => {
    const { api, upload, download } = world.hosts
    for (const host of [...api, ...upload, ...download])
      for (const path of ['/health', '/Health/']) {
        const answer = await world.request('GET', host + path, { token: 'nonsense' })
        assert.deepEqual(answer.ok(), {}, host)
        assert.equal(answer.header('cache-control'), 'no-store')
      }
    const other = await world.call('POST', '/health', { json: {} })
    other.refused('error-method')
    assert.equal(other.header('allow'), 'GET, HEAD')
  })

  test('the pages are HTML and old download pages redirect to them', ['pages'], async (world) => {
    const file = (await world.uploadForm([filePart({ name: 'shown on the page.txt', content: 'x' })])).ok()
    for (const path of [
      '/',
      `/d/${file.parentFolderCode}`,
      `/d/${file.parentFolder}`,
      '/profile',
      '/d/Zz9Zz9Zz',
    ]) {
      const page = await world.request('GET', world.hosts.web + path)
      assert.match(page.header('content-type'), /^text\/html/, path)
      assert.equal(page.code, path === '/d/Zz9Zz9Zz' ? 404 : 200, path)
      assert.ok(page.header('content-security-policy').length > 0, path)
    }
    assert.match(
      (await world.request('GET', `${world.hosts.web}/d/${file.parentFolderCode}`)).text,
      /shown on the page\.txt/,
    )
    const moved = await world.call('GET', `/download/web/${file.id}/shown%20on%20the%20page.txt`)
    assert.ok([301, 302, 303, 307, 308].includes(moved.code), `${moved.code}`)
    assert.match(moved.header('location'), /\/d\/[A-Za-z0-9]{8}$/)
    const page = await world.request('GET', new URL(moved.header('location'), world.api()).href)
    assert.match(page.header('content-type'), /^text\/html/)
  })

  test('/docs is a page of the document', ['GET /openapi.json', 'pages'], async (world) => {
    const page = await world.call('GET', '/docs')
    assert.equal(page.code, 200)
    assert.match(page.header('content-type'), /^text\/html/)
    assert.match(page.text, /\/contents\/createFolder/)
  })

  test(
    'the pages are readable for visitors without a token, and for owners of every tier',
    ['pages'],
    async (world) => {
      const [guest, other] = await Promise.all([world.guest(), world.guest()])
      const [open, hidden] = [await guest.folder({ public: true }), await guest.folder()]
      const file = await guest.file({ in: open.id, content: 'for everybody' })
      const read = (id: string, options: CallOptions = {}) =>
        world.call('GET', `/web/contents/${id}`, options)
      for (const id of [open.id, open.code]) {
        const { folder, children } = (await read(id)).listing()
        assert.deepEqual([folder.isOwner, children.length], [false, 1])
        assert.equal((await world.request('GET', children[0]?.link ?? '')).text, 'for everybody')
      }
      for (const id of [hidden.id, hidden.code, guest.root]) {
        ;(await read(id)).refused('error-notOwner')
        ;(await read(id, { token: other.token })).refused('error-notOwner')
        assert.equal((await read(id, { token: guest.token })).ok().isOwner, true)
      }
      ;(await read(open.id, { token: 'nonsense' })).refused('error-token')
      ;(await guest.update(open.id, 'password', 'for some')).ok()
      ;(await read(open.id)).refused('error-passwordRequired')
      assert.equal(
        (await read(open.id, { query: { password: sha256('for some') } })).ok().children[file.id]?.name,
        file.name,
      )
      ;(await guest.read(hidden.id)).refused('error-notPremium')
    },
  )

  test(
    'owners of every tier copy, move and search their own content, and only that',
    [
      'POST /web/contents/copy · success',
      'POST /web/contents/copy · caps',
      'POST /web/contents/copy · error-token',
      'POST /web/contents/copy · error-contentsId',
      'POST /web/contents/copy · error-notOwner',
      'PUT /web/contents/move · success',
      'PUT /web/contents/move · error-token',
      'PUT /web/contents/move · error-contentsId',
      'PUT /web/contents/move · error-notOwner',
      'GET /web/contents/search · success',
      'GET /web/contents/search · error-token',
      'GET /web/contents/search · error-searchedString',
      'GET /web/contents/search · error-notOwner',
    ],
    async (world) => {
      const [guest, other] = await Promise.all([world.guest(), world.guest()])
      const [from, into] = [await guest.folder({ name: 'from' }), await guest.folder({ name: 'into' })]
      const shared = await other.folder({ name: 'shared', public: true })
      await guest.file({ in: from.id, name: 'song.ogg', content: 'la' })
      const copy = (ids: string, folderId: string, options: CallOptions = {}) =>
        guest.call('POST', '/web/contents/copy', { json: { contentsId: ids, folderId }, ...options })
      const move = (ids: string, folderId: string, options: CallOptions = {}) =>
        guest.call('PUT', '/web/contents/move', { json: { contentsId: ids, folderId }, ...options })
      const search = (contentId: string, searchedString = 'SONG', options: CallOptions = {}) =>
        guest.call('GET', '/web/contents/search', { query: { contentId, searchedString }, ...options })
      const found = async (id: string) =>
        Object.values((await search(id)).ok<Record<string, Item>>()).map(({ name }) => name)

      assert.deepEqual((await copy(from.id, into.id)).ok(), {})
      assert.deepEqual(await found(into.id), ['song.ogg'])
      assert.deepEqual(await found(guest.root), ['song.ogg', 'song.ogg'])
      assert.deepEqual((await move(from.id, into.id)).ok(), {})
      assert.deepEqual(await found(into.code), ['song.ogg', 'song.ogg'])
      const { folder } = (await guest.call('GET', `/web/contents/${from.id}`)).listing()
      assert.equal(folder.parentFolder, into.id)
      const { statsCurrent } = await guest.details()
      assert.deepEqual([statsCurrent.fileCount, statsCurrent.folderCount, statsCurrent.storage], [2, 3, 4])

      await guest.operator({ limits: { contents: 5 } })
      ;(await copy(from.id, guest.root)).refused('error-limits')
      for (const call of [copy, move]) {
        ;(await call(shared.id, into.id)).refused('error-notOwner')
        ;(await call(from.id, shared.id)).refused('error-notOwner')
        ;(await call(from.code, into.id)).refused('error-contentsId')
        ;(await call(from.id, into.id, { token: 'nonsense' })).refused('error-token')
      }
      ;(await search(shared.id)).refused('error-notOwner')
      ;(await search(shared.code)).refused('error-notOwner')
      ;(await search(from.id, ' ')).refused('error-searchedString')
      ;(await search(from.id, 'x', { token: 'nonsense' })).refused('error-token')
      ;(await guest.copy([from.id], guest.root)).refused('error-notPremium')
    },
  )

  test(
    'with a website token every tier reads as the pages do, without an account token',
    ['GET /contents/{contentId} · website token', 'GET /contents/{contentId} · error-notPremium'],
    async (world) => {
      const [premium, guest, other] = await Promise.all([world.premium(), world.guest(), world.guest()])
      const [open, hidden] = [await premium.folder({ public: true }), await premium.folder()]
      await premium.file({ in: open.id, name: 'one', content: 'for everybody' })
      const marked = (id: string, options: CallOptions = {}) =>
        world.call('GET', `/contents/${id}`, {
          ...options,
          headers: { 'X-Website-Token': 'any value of any length' },
        })
      for (const token of [undefined, guest.token, other.token])
        for (const id of [open.id, open.code]) {
          for (const answer of [
            await marked(id, { token }),
            await world.call('GET', `/contents/${id}`, { token, query: { wt: 'x', page: 1 } }),
          ]) {
            const { folder, names, children, metadata } = answer.listing()
            assert.deepEqual([folder.isOwner, names, metadata.totalCount], [false, ['one'], 1])
            assert.equal((await world.request('GET', children[0]?.link ?? '')).text, 'for everybody')
          }
        }
      ;(await marked(hidden.id)).refused('error-notOwner')
      ;(await marked(hidden.id, { token: guest.token })).refused('error-notOwner')
      ;(await marked('Zz9Zz9Zz')).refused('error-notFound')
      ;(await marked(open.id, { query: { page: 0 } })).refused('error-page')
      ;(await marked(open.id, { token: 'nonsense' })).refused('error-token')
      ;(await premium.update(open.id, 'password', 'for some')).ok()
      ;(await marked(open.id)).refused('error-passwordRequired')
      ;(await marked(open.id, { query: { password: sha256('for some') } })).ok()
      // An owner sees the owner's view, in every tier.
      assert.equal((await marked(hidden.id, { token: premium.token })).ok().isOwner, true)
      assert.equal((await marked(open.id, { token: premium.token })).ok().isOwner, true)
      assert.equal((await marked(guest.root, { token: guest.token })).ok().isOwner, true)
      // An empty one counts as none.
      ;(await guest.call('GET', `/contents/${guest.root}`, { headers: { 'X-Website-Token': '' } })).refused(
        'error-notPremium',
      )
      ;(await guest.call('GET', `/contents/${guest.root}`, { query: { wt: '' } })).refused('error-notPremium')
      ;(await world.call('GET', `/contents/${open.id}`, { query: { wt: '' } })).refused('error-token')
      // It opens only this call.
      ;(
        await guest.call('GET', '/contents/search', {
          query: { contentId: guest.root, searchedString: 'x', wt: 'x' },
        })
      ).refused('error-notPremium')
    },
  )

  test('a script of the pages contains a website token', ['GET /dist/js/config.js'], async (world) => {
    const script = await world.request('GET', `${world.hosts.web}/dist/js/config.js`)
    assert.equal(script.code, 200)
    assert.match(script.header('content-type'), /^text\/javascript/)
    assert.match(script.text, /appdata\.wt = "[A-Za-z0-9]{12}"/)
  })

  test(
    'an account switches its recycle bin on its page',
    ['pages', 'recycle bin · GET /recyclebin'],
    async (world) => {
      const guest = await world.guest()
      const set = (recycleBin: unknown) => guest.call('PUT', '/web/account', { json: { recycleBin } })
      ;(await set(true)).ok()
      assert.equal((await guest.details()).recycleBin.enabled, true)
      ;(await set('maybe')).refused('error-recycleBin')
      ;(await set(false)).ok()
      assert.equal((await guest.details()).recycleBin.enabled, false)
      ;(await world.call('PUT', '/web/account', { json: { recycleBin: true } })).refused('error-token')
      assert.equal((await guest.details()).recycleBin.enabled, false)
    },
  )

  test('with open listing every tier reads and searches', ['HOLDFAST_OPEN_LISTING'], async (outer) => {
    const { hosts } = await outer.instances.get('switches')
    const world = outer.at(hosts)
    const [ann, guest] = await Promise.all([world.guest(), world.guest()])
    const folder = await ann.folder({ public: true, name: 'open' })
    await ann.file({ in: folder.id, name: 'one' })
    assert.deepEqual((await guest.read(folder.code)).listing().names, ['one'])
    assert.equal(Object.keys((await guest.search(folder.id, 'one')).ok()).length, 1)
    ;(await guest.read((await ann.folder()).id)).refused('error-notOwner')
    ;(await guest.copy([folder.id], guest.root)).refused('error-notPremium')
    ;(await world.call('GET', `/contents/${folder.code}`)).refused('error-token')
  })

  test('behind a trusted proxy its report of the client counts', ['HOLDFAST_TRUST_PROXY'], async (outer) => {
    const { hosts } = await outer.instances.get('switches')
    const world = outer.at(hosts)
    const guest = await world.guest()
    const link = await guest.link((await guest.file()).id, { sourceIpsAllowed: ['203.0.113.7'] })
    const code = async (forwarded?: string) =>
      (
        await world.request(
          'GET',
          link.directLink,
          forwarded === undefined ? {} : { headers: { 'x-forwarded-for': forwarded } },
        )
      ).code
    assert.equal(await code(), 403)
    assert.equal(await code('203.0.113.7'), 200)
    assert.equal(await code('203.0.113.7, 198.51.100.1'), 403, 'only the hop next to the proxy is trusted')
    assert.equal(await code('198.51.100.1, 203.0.113.7'), 200)
  })
})

export const mail = cases('mail', (test) => {
  test('with a relay the sign-in link is sent by SMTP', ['SMTP'], async (outer) => {
    const { hosts, smtp } = await outer.instances.get('switches')
    const world = outer.at(hosts)
    const email = newAddress()
    const made = (await world.call('POST', '/accounts', { json: { email } })).ok<{ token: string }>()
    await eventually(async () => {
      const sent = smtp.mails.map(parseMail).find((each) => each.to.includes(email))
      assert.equal(sent?.token, made.token)
      assert.ok((sent?.subject.length ?? 0) > 0)
    })
  })

  test('guests are sent nothing', ['outbox'], async (world) => {
    const guest = await world.guest()
    ;(await guest.call('POST', `/accounts/${guest.id}/resettoken`)).ok()
    await sleep(1_500)
    assert.deepEqual(await mailsTo(world.hosts.outbox, guest.id), [])
  })
})

/** The requests of third-party clients, in their order. */
export const clients = cases('real clients', (test) => {
  test('curl, as printed at the start: upload, direct link, download', ['curl'], async (world) => {
    const file = (
      await world.uploadForm([{ name: 'file', filename: 'holiday.jpg', content: 'jpeg', type: 'image/jpeg' }])
    ).ok()
    const link = (
      await world.call('POST', `/contents/${file.id}/directlinks`, {
        token: file.guestToken,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      })
    ).ok<{ directLink: string }>()
    assert.equal((await world.request('GET', link.directLink)).text, 'jpeg')
  })

  test(
    'rclone: account, root, lookups by name, upload by header, modTime, download with ranges, copy, move, delete',
    ['rclone'],
    async (world) => {
      const ann = await world.premium()
      const get = (path: string, query: Record<string, string>) => ann.call('GET', path, { query })
      const { id } = (await get('/accounts/getid', {})).ok()
      const details = (await get(`/accounts/${id}`, {})).ok<{
        rootFolder: string
        subscriptionLimitStorage: number | null
      }>()
      const lookup = async (folder: string, contentname: string) =>
        Object.values(
          (await get(`/contents/${folder}`, { contentname, page: '1', pageSize: '1000' })).ok().children,
        )
      assert.deepEqual(await lookup(details.rootFolder, 'backup'), [])
      const folder = (
        await ann.call('POST', '/contents/createFolder', {
          json: { parentFolderId: details.rootFolder, folderName: 'backup', modTime: 1_700_000_000 },
        })
      ).ok()
      assert.equal(folder.modTime, 1_700_000_000)
      assert.deepEqual(
        (await lookup(details.rootFolder, 'backup')).map((child) => child.id),
        [folder.id],
      )
      const uploaded = (
        await world.uploadForm(
          [
            { name: 'folderId', value: folder.id },
            { name: 'modTime', value: '1600000000' },
            { name: 'file', filename: 'data.bin', content: '0123456789' },
          ],
          { token: ann.token },
        )
      ).ok()
      assert.deepEqual(
        [uploaded.modTime, uploaded.size, uploaded.parentFolder, uploaded.type],
        [1_600_000_000, 10, folder.id, 'file'],
      )
      const { link } = (await get(`/contents/${uploaded.id}`, { page: '1', pageSize: '1' })).ok()
      const part = await world.request('GET', link, { token: ann.token, headers: { range: 'bytes=4-' } })
      assert.deepEqual([part.code, part.text, part.header('content-range')], [206, '456789', 'bytes 4-9/10'])
      for (const item of [uploaded, folder]) {
        const changed = (
          await ann.call('PUT', `/contents/${item.id}/update`, {
            json: { attribute: 'modTime', attributeValue: 1_500_000_000 },
          })
        ).ok()
        assert.deepEqual([changed.modTime, changed.type, changed.id], [1_500_000_000, item.type, item.id])
      }
      type Represented = Record<string, { status: string; data: Item }>
      const prefer = { prefer: 'return=representation' }
      const copied = (await ann.copy([uploaded.id], details.rootFolder, {}, prefer)).ok<Represented>()[
        uploaded.id
      ]?.data as Item
      assert.deepEqual(
        [copied.type, copied.size, copied.md5, copied.parentFolder],
        ['file', 10, uploaded.md5, details.rootFolder],
      )
      const moved = (await ann.move([copied.id], folder.id, prefer)).ok<Represented>()[copied.id]
        ?.data as Item
      assert.equal(moved.parentFolder, folder.id)
      const listed = (
        await get(`/contents/${details.rootFolder}`, { maxdepth: '4', page: '1', pageSize: '1000' })
      ).ok()
      assert.equal(Object.keys((listed.children[folder.id] as Item).children).length, 2)
      const link2 = await ann.link(uploaded.id)
      const record = (await get(`/contents/${uploaded.id}`, { page: '1', pageSize: '1' })).ok().directLinks[
        link2.id
      ]
      assert.equal(record?.directLink, link2.directLink)
      for (const headers of [{}, prefer]) {
        const id = Object.keys((await get(`/contents/${folder.id}`, {})).ok().children)[0] as string
        const removed = (await ann.call('DELETE', '/contents/', { json: { contentsId: id }, headers })).ok<
          Record<string, { status: string }>
        >()
        for (const each of Object.values(removed))
          assert.equal(each.status, 'ok', 'rclone looks at every one')
      }
      assert.equal((await get(`/contents/${folder.id}`, {})).ok().childrenCount, 0)
    },
  )

  test(
    'gofile2: the folder comes after the file, everything else as documented',
    ['gofile2'],
    async (world) => {
      const ann = await world.premium()
      const folder = (
        await world.call('POST', '/contents/createFolder', {
          token: ann.token,
          json: { parentFolderId: ann.root, folderName: 'from python' },
        })
      ).ok()
      const file = (
        await world.uploadForm([
          { name: 'file', filename: 'a.txt', content: 'a' },
          { name: 'token', value: ann.token },
          { name: 'folderId', value: folder.id },
        ])
      ).ok()
      ;(
        await world.call('PUT', `/contents/${folder.id}/update`, {
          token: ann.token,
          json: { attribute: 'tags', attributeValue: 'one,two' },
        })
      ).ok()
      ;(
        await world.call('PUT', `/contents/${folder.id}/update`, {
          token: ann.token,
          json: { attribute: 'public', attributeValue: 'true' },
        })
      ).ok()
      ;(
        await world.call('POST', '/contents/copy', {
          token: ann.token,
          json: { contentsId: file.id, folderId: ann.root },
        })
      ).ok()
      const link = (
        await world.call('POST', `/contents/${file.id}/directlinks`, {
          token: ann.token,
          json: { sourceIpsAllowed: [], domainsAllowed: [], auth: [] },
        })
      ).ok()
      ;(
        await world.call('PUT', `/contents/${file.id}/directlinks/${link.id}`, {
          token: ann.token,
          json: { domainsAllowed: ['example.test'] },
        })
      ).ok()
      ;(await world.call('DELETE', `/contents/${file.id}/directlinks/${link.id}`, { token: ann.token })).ok()
      ;(
        await world.call('GET', `/contents/${folder.id}`, { token: ann.token, query: { token: ann.token } })
      ).ok()
      ;(
        await world.call('DELETE', '/contents', {
          token: ann.token,
          json: { contentsId: `${file.id},${folder.id}` },
        })
      ).ok()
    },
  )

  test(
    'gallery-dl: a guest by an empty form, then listings and links with its cookie',
    ['gallery-dl'],
    async (outer) => {
      const { hosts } = await outer.instances.get('switches')
      const world = outer.at(hosts)
      const owner = await world.guest()
      const folder = await owner.folder({ public: true, name: 'gallery' })
      await owner.file({ in: folder.id, name: '1.jpg', content: 'one' })
      const below = await owner.folder({ in: folder.id, name: 'more' })
      await owner.file({ in: below.id, name: '2.jpg', content: 'two' })
      const { token } = (
        await world.call('POST', '/accounts', { body: '', type: 'application/x-www-form-urlencoded' })
      ).ok<{ token: string }>()
      const query = { contentFilter: '', page: '1', pageSize: '1000', sortField: 'name', sortDirection: '1' }
      const seen: string[] = []
      const walk = async (id: string): Promise<void> => {
        const data = (
          await world.call('GET', `/contents/${id}`, { token, query, headers: { 'x-website-token': 'wt' } })
        ).ok()
        assert.equal(data.canAccess, true)
        for (const child of Object.values(data.children)) {
          if (child.type === 'folder') await walk(child.code)
          else
            seen.push(
              `${data.name}/${child.name}=${(await world.request('GET', child.link, { headers: { cookie: `accountToken=${token}` } })).text}`,
            )
        }
      }
      await walk(folder.code)
      assert.deepEqual(seen.sort(), ['gallery/1.jpg=one', 'more/2.jpg=two'])
    },
  )

  test(
    'cyberdrop-dl: a guest, protected albums by their SHA-256, md5 of every file',
    ['cyberdrop-dl'],
    async (outer) => {
      const { hosts } = await outer.instances.get('switches')
      const world = outer.at(hosts)
      const owner = await world.guest()
      const folder = await owner.folder({ public: true, name: 'album' })
      const file = await owner.file({ in: folder.id, name: '1.mp4', content: 'clip' })
      ;(await owner.update(folder.id, 'password', 'open up')).ok()
      const { token } = (await world.call('POST', '/accounts', { json: {} })).ok<{ token: string }>()
      const read = (query: Record<string, string>) =>
        world.call('GET', `/contents/${folder.code}`, {
          token,
          query: { page: '1', pageSize: '1000', sortField: 'createTime', ...query },
        })
      ;(await read({})).refused('error-passwordRequired')
      const data = (await read({ password: sha256('open up') })).ok()
      assert.equal(data.childrenCount, 1)
      assert.deepEqual(
        [data.children[file.id]?.md5, data.children[file.id]?.canAccess, data.code],
        [file.md5, true, folder.code],
      )
      assert.equal((await world.request('GET', data.children[file.id]?.link ?? '', { token })).text, 'clip')
    },
  )

  test('gofilepy: servers, then a form to /uploadFile, then form bodies', ['gofilepy'], async (world) => {
    const { servers } = (await world.call('GET', '/servers')).ok<{ servers: { name: string }[] }>()
    const regional = servers[0]?.name ?? ''
    const first = (
      await world.uploadForm([filePart({ name: 'py.txt' })], { path: '/uploadFile', regional })
    ).ok()
    const form = (fields: Record<string, string>) => ({
      body: new URLSearchParams({ token: first.guestToken, ...fields }).toString(),
      type: 'application/x-www-form-urlencoded',
    })
    const again = (
      await world.uploadForm(
        [
          filePart(),
          { name: 'token', value: first.guestToken },
          { name: 'folderId', value: first.parentFolder },
        ],
        { path: '/uploadFile', regional },
      )
    ).ok()
    assert.equal(again.parentFolder, first.parentFolder)
    ;(
      await world.call(
        'PUT',
        `/contents/${first.parentFolder}/update`,
        form({ attribute: 'name', attributeValue: 'renamed' }),
      )
    ).ok()
    ;(await world.call('DELETE', '/contents', form({ contentsId: first.id }))).ok()
  })
})
