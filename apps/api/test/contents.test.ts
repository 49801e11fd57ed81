import { AnswerBudget } from '@holdfast/http-kit'
import { plainBudget } from '@holdfast/http-kit/testing'
import { Fault } from '@holdfast/kernel'
import { blank, DirectLink, SetAccount, type UpdateContent } from '@holdfast/wire'
import t from 'tap'
import { sha256, world } from './world.ts'

const unknownId = '3f2b8c54-9d1e-4f6a-8b7c-0123456789ab'

t.test('createFolder answers the folder, with a generated name when none was sent', async (t) => {
  const { ask, guest } = world(t)
  const ann = await guest()
  const named = await ask('POST', '/contents/createFolder', {
    token: ann.token,
    body: { parentFolderId: ann.rootFolder, folderName: 'Süßes', public: 'true', modTime: 1234 },
  })
  t.match(named, {
    code: 200,
    status: 'ok',
    data: {
      type: 'folder',
      name: 'Süßes',
      parentFolder: ann.rootFolder,
      public: true,
      isOwner: true,
      canAccess: true,
      modTime: 1234,
      childrenCount: 0,
    },
  })
  t.match(named.data.code, /^[A-Za-z0-9]{8}$/)
  const unnamed = await ask('POST', '/contents/createFolder/', {
    body: `token=${ann.token}&parentFolderId=${ann.rootFolder}`,
    'content-type': 'application/x-www-form-urlencoded',
  })
  t.equal(unnamed.data.name, unnamed.data.code)
  t.equal(unnamed.data.public, false)

  const bad = async (body: object) =>
    (await ask('POST', '/contents/createFolder', { token: ann.token, body })).status
  t.equal(await bad({}), 'error-parentFolderId')
  t.equal(await bad({ parentFolderId: named.data.code }), 'error-parentFolderId')
  t.equal(await bad({ parentFolderId: unknownId }), 'error-notFound')
  t.equal(await bad({ parentFolderId: ann.rootFolder, folderName: 'a/b' }), 'error-folderName')
  t.equal(await bad({ parentFolderId: ann.rootFolder, folderName: '' }), 'error-folderName')
  t.equal(await bad({ parentFolderId: ann.rootFolder, folderName: 'x'.repeat(256) }), 'error-folderName')
  t.equal(await bad({ parentFolderId: ann.rootFolder, public: 'yes' }), 'error-public')
  const bob = await guest()
  t.equal(await bad({ parentFolderId: bob.rootFolder }), 'error-notOwner')
})

t.test('the order of checks: token, tier, parameters, existence, ownership', async (t) => {
  const { ask, guest } = world(t)
  const ann = await guest()
  const premium = await guest('premium')
  const status = async (token: string | undefined, path: string) =>
    (await ask('GET', path, token === undefined ? {} : { token })).status
  t.equal(await status(undefined, '/contents/x?page=x'), 'error-token')
  t.equal(await status('nonsense', '/contents/x?page=x'), 'error-token')
  t.equal(
    await status(
      ann.token.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')),
      '/contents/x?page=x',
    ),
    'error-token',
  )
  t.equal(await status(ann.token, '/contents/x?page=x'), 'error-notPremium')
  t.equal(await status(premium.token, '/contents/x?page=x'), 'error-contentId')
  t.equal(await status(premium.token, `/contents/${unknownId}?page=x`), 'error-page')
  t.equal(await status(premium.token, `/contents/${unknownId}`), 'error-notFound')
  t.equal(await status(premium.token, '/contents/AAAAAAAA'), 'error-notFound')
  for (const word of ['upload', 'Download', 'recycled'])
    t.equal(await status(premium.token, `/contents/${word}`), 'error-notFound', 'never a code')
  t.equal(await status(premium.token, `/contents/${ann.rootFolder}`), 'error-notOwner')
  t.match(await ask('GET', `/contents/${ann.rootFolder}`, { token: ann.token }), {
    code: 401,
    status: 'error-notPremium',
  })
  t.equal(
    (await ask('PUT', '/contents/x/update', { token: 'x', body: '{', 'content-type': 'application/json' }))
      .status,
    'error-body',
  )
})

t.test('a listing pages, sorts, filters and descends', async (t) => {
  const { ask, guest, file, folder } = world(t)
  const ann = await guest('premium')
  const top = await folder(ann, ann.rootFolder, { folderName: 'top', public: true })
  const below = await folder(ann, top.id, { folderName: 'below' })
  await file(ann, below.id, 'deep.txt')
  for (const [name, size] of [
    ['b.txt', 2],
    ['a.txt', 3],
    ['c.txt', 1],
  ] as const)
    await file(ann, top.id, name, size)
  const list = async (query = '', id = top.id) => ask('GET', `/contents/${id}${query}`, { token: ann.token })
  const names = async (query: string) => {
    const { data, status } = await list(query)
    return status === 'ok'
      ? Object.values(data.children).map((child) => (child as { name: string }).name)
      : status
  }
  const whole = await list()
  t.match(whole, {
    code: 200,
    data: { id: top.id, name: 'top', type: 'folder', childrenCount: 4, isOwner: true },
    metadata: { page: 1, pageSize: 1000, totalCount: 4, totalPages: 1, hasNextPage: false },
  })
  t.same(Object.keys(whole.data.children).length, 4)
  t.match((await list('', top.code)).data, { id: top.id, childrenCount: 4 })
  t.same(await names('?sortField=name&sortDirection=1'), ['a.txt', 'b.txt', 'below', 'c.txt'])
  t.same(await names('?sortField=size'), ['a.txt', 'b.txt', 'c.txt', 'below'])
  t.same(await names('?sortField=name&sortDirection=1&page=2&pageSize=3'), ['c.txt'])
  t.same(await names('?contentFilter=TXT&sortField=name&sortDirection=-1'), ['c.txt', 'b.txt', 'a.txt'])
  t.same(await names('?contentname=a.txt'), ['a.txt'])
  t.same(await names('?contentname=A.TXT'), [])
  t.equal((await list('?pageSize=5000')).metadata.pageSize, 1000)
  t.same(await names('?page=9'), [])
  t.match(await list('?page=99999999999'), {
    data: { children: {} },
    metadata: { page: 99_999_999_999, totalCount: 4, hasNextPage: false },
  })
  const deep = await list('?maxdepth=4')
  t.match(deep.data.children[below.id], { childrenCount: 1 })
  t.equal(Object.keys(deep.data.children[below.id].children).length, 1)
  t.same((await list()).data.children[below.id].children, {})
  for (const [query, status] of [
    ['?page=0', 'error-page'],
    ['?page=1.5', 'error-page'],
    ['?page=1&page=2', 'error-page'],
    ['?pageSize=0', 'error-pageSize'],
    ['?pageSize=-1', 'error-pageSize'],
    ['?sortField=color', 'error-sortField'],
    ['?sortDirection=0', 'error-sortDirection'],
    ['?sortDirection=2', 'error-sortDirection'],
    ['?maxdepth=0', 'error-maxdepth'],
    ['?maxdepth=17', 'error-maxdepth'],
    ['?maxdepth=', 'error-maxdepth'],
  ] as const)
    t.equal(await names(query), status, query)
  const [fileId] = Object.keys((await list('?contentname=a.txt')).data.children)
  const one = await list('', fileId)
  t.match(one, {
    code: 200,
    data: { type: 'file', name: 'a.txt', size: 3, mimetype: 'text/plain', servers: ['store1'] },
  })
  t.strictSame(one.metadata, { page: 1, pageSize: 1000, totalCount: 1, totalPages: 1, hasNextPage: false })
  t.match(one.data.link, `http://dl.example/download/${fileId}/a.txt?c=`)
})

t.test('visitors and owners of any tier read through the path of the pages', async (t) => {
  const { ask, guest, file, folder } = world(t)
  const ann = await guest()
  const bob = await guest('premium')
  const open = await folder(ann, ann.rootFolder, { folderName: 'open', public: true })
  const locked = await folder(ann, open.id, { folderName: 'locked' })
  await folder(ann, open.id, { folderName: 'private', public: false })
  await file(ann, locked.id, 'secret.txt')
  await ask('PUT', `/contents/${locked.id}/update`, {
    token: ann.token,
    body: { attribute: 'password', attributeValue: 'sesame' },
  })
  const own = await ask('GET', `/web/contents/${open.id}`, { token: ann.token })
  t.equal(own.data.childrenCount, 2)
  const seen = await ask('GET', `/web/contents/${open.code}`)
  t.match(seen, { code: 200, data: { isOwner: false, canAccess: true, childrenCount: 1 } })
  t.same(seen.data.children[locked.id], {
    id: locked.id,
    type: 'folder',
    name: 'locked',
    code: locked.code,
    isOwner: false,
    canAccess: false,
    password: true,
    passwordStatus: 'passwordRequired',
  })
  const at = async (query: string, token = bob.token) =>
    ask('GET', `/contents/${locked.id}${query}`, { token })
  t.match(await at(''), { code: 401, status: 'error-passwordRequired' })
  t.match(await at(`?password=${sha256('wrong')}`), { code: 401, status: 'error-passwordWrong' })
  t.match(await at('?password=sesame'), { code: 401, status: 'error-passwordWrong' })
  t.match(await at(`?password=${sha256('sesame').toUpperCase()}`), { code: 200, data: { childrenCount: 1 } })
  t.match(await ask('GET', `/web/contents/${locked.id}?password=${sha256('sesame')}`), { code: 200 })
  t.match(await ask('GET', `/web/contents/${ann.rootFolder}`), { code: 401, status: 'error-notOwner' })
  t.match(await ask('GET', `/web/contents/${open.id}`, { token: 'x' }), { code: 401, status: 'error-token' })
})

t.test('the operator can open listings to every tier', async (t) => {
  const { ask, guest } = world(t, { settings: { openListing: true } })
  const ann = await guest()
  t.match(await ask('GET', `/contents/${ann.rootFolder}`, { token: ann.token }), { code: 200 })
  t.match(
    await ask('GET', `/contents/search?contentId=${ann.rootFolder}&searchedString=x`, { token: ann.token }),
    {
      code: 200,
    },
  )
})

t.test('update changes one attribute and answers the whole item', async (t) => {
  const { ask, guest, file, folder, clock } = world(t)
  const ann = await guest('premium')
  const pics = await folder(ann, ann.rootFolder, { folderName: 'pics' })
  const note = await file(ann, pics.id, 'note.txt')
  const update = (id: string, attribute: unknown, attributeValue: unknown, rest: object = {}) =>
    ask('PUT', `/contents/${id}/update`, { token: ann.token, body: { attribute, attributeValue, ...rest } })
  const outcome = async (...change: Parameters<typeof update>) => (await update(...change)).status
  t.match(await update(note.id, 'name', 'new.txt'), {
    code: 200,
    data: { name: 'new.txt', size: 3, parentFolder: pics.id },
  })
  t.match(await update(pics.id, 'description', '**hi**'), { data: { description: '**hi**' } })
  t.equal((await update(pics.id, 'description', '')).data.description, undefined)
  t.match(await update(note.id, 'tags', ' a, b,a '), { data: { tags: 'a,b' } })
  t.equal((await update(note.id, 'tags', null)).data.tags, undefined)
  t.match(await update(pics.id, 'public', 'true'), { data: { public: true, code: pics.code } })
  t.match(await update(pics.id, 'public', false), { data: { public: false } })
  t.match(await update(pics.id, 'password', 'sesame'), { data: { password: true } })
  t.equal((await update(pics.id, 'password', '')).data.password, undefined)
  const soon = Math.floor(clock.now() / 1000) + 100
  t.match(await update(pics.id, 'expiry', soon, { deleteAfterExpiry: 'true' }), {
    data: { expiry: soon, deleteAfterExpiry: true },
  })
  t.match(await update(pics.id, 'expiry', String(soon + 1)), {
    data: { expiry: soon + 1, deleteAfterExpiry: false },
  })
  t.equal((await update(pics.id, 'expiry', '')).data.expiry, undefined)
  t.match(await update(note.id, 'modTime', 4242), { data: { modTime: 4242 } })
  t.match(await update(note.id, 'modTime', '4243'), { data: { modTime: 4243 } })

  t.equal(await outcome(note.id, 'color', 'red'), 'error-attribute')
  t.equal(await outcome(note.id, undefined, 'red'), 'error-attribute')
  t.equal(await outcome(note.id, 'name', undefined), 'error-attributeValue')
  t.equal(await outcome(note.id, 'name', ''), 'error-name')
  t.equal(await outcome(note.id, 'name', 7), 'error-name')
  t.equal(await outcome(note.id, 'tags', 'a b'), 'error-tags')
  t.equal(await outcome(pics.id, 'public', 1), 'error-public')
  t.equal(await outcome(pics.id, 'password', 'abc'), 'error-password')
  t.equal(await outcome(pics.id, 'expiry', 1), 'error-expiry')
  t.equal(await outcome(pics.id, 'expiry', soon * 1000), 'error-expiry')
  t.equal(await outcome(pics.id, 'expiry', soon, { deleteAfterExpiry: 'maybe' }), 'error-deleteAfterExpiry')
  t.equal(await outcome(note.id, 'description', 'x'), 'error-attribute')
  t.equal(await outcome(note.id, 'expiry', soon), 'error-attribute')
  t.match(await update(ann.rootFolder, 'expiry', soon), { code: 403, status: 'error-rootFolder' })
  t.match(await update(pics.code, 'name', 'x'), { code: 400, status: 'error-contentId' })
  t.match(await update(unknownId, 'name', 'x'), { code: 404, status: 'error-notFound' })
  const bob = await guest()
  t.match(await update(bob.rootFolder, 'name', 'x'), { code: 401, status: 'error-notOwner' })
})

t.test('a list of ids acts on all or none', async (t) => {
  const { ask, guest, file, folder } = world(t)
  const ann = await guest('premium')
  const bob = await guest()
  const one = await file(ann, ann.rootFolder, 'one')
  const two = await file(ann, ann.rootFolder, 'two')
  const foreign = await file(bob, bob.rootFolder, 'foreign')
  const remove = async (ids: string) =>
    (await ask('DELETE', '/contents/', { token: ann.token, body: { contentsId: ids } })).status
  const left = async () =>
    Object.keys((await ask('GET', `/contents/${ann.rootFolder}`, { token: ann.token })).data.children).length
  t.equal(await remove(`${one.id},${foreign.id}`), 'error-owner')
  t.equal(await remove(`${one.id},${unknownId}`), 'error-notFound')
  t.equal(await remove(`${one.id},${ann.rootFolder}`), 'error-protectedFolder')
  t.equal(await remove(`${one.id},x`), 'error-contentsId')
  t.equal(await remove(''), 'error-contentsId')
  t.equal(await left(), 2)
  const box = await folder(ann, ann.rootFolder)
  const move = async (ids: string, folderId: string, prefer = '') =>
    ask('PUT', '/contents/move', { token: ann.token, body: { contentsId: ids, folderId }, prefer })
  t.match(await move(`${one.id},${foreign.id}`, box.id), { status: 'error-notOwner' })
  t.match(await move(one.id, bob.rootFolder), { status: 'error-notOwner' })
  t.match(await move(one.id, two.id), { code: 400, status: 'error-folderId' })
  t.match(await move(one.id, box.code), { code: 400, status: 'error-folderId' })
  t.match(await move(box.id, box.id), { code: 400, status: 'error-folderId' })
  t.same((await move(one.id, box.id)).data, {})
  const moved = await move(`${two.id.toUpperCase()},${one.id}`, box.id, 'return=representation')
  t.match(moved.data[two.id], { status: 'ok', data: { id: two.id, parentFolder: box.id, name: 'two' } })
  t.equal(await remove(`${one.id}, ${two.id}`), 'ok')
  t.equal(await remove(one.id), 'error-notFound')
})

t.test('copy and import take content from several accounts at once', async (t) => {
  const { ask, guest, file, folder } = world(t)
  const [ann, bob, cid] = [await guest('premium'), await guest(), await guest()]
  const own = await file(ann, ann.rootFolder, 'own.txt')
  const shared = await folder(bob, bob.rootFolder, { folderName: 'shared', public: true })
  const inside = await file(bob, shared.id, 'inside.txt', 5)
  await folder(bob, shared.id, { folderName: 'hidden', public: false })
  const other = await folder(cid, cid.rootFolder, { folderName: 'other', public: true })
  const secret = await file(cid, cid.rootFolder, 'secret.txt')
  const box = await folder(ann, ann.rootFolder, { folderName: 'box' })
  const copy = (ids: string[], folderId: string, headers: object = {}) =>
    ask('POST', '/contents/copy', {
      token: ann.token,
      body: { contentsId: ids.join(','), folderId },
      ...headers,
    })
  t.match(await copy([own.id, secret.id], box.id), { code: 401, status: 'error-notOwner' })
  t.match(await copy([own.id, unknownId], box.id), { code: 404, status: 'error-notFound' })
  t.match(await copy([inside.id], bob.rootFolder), { code: 401, status: 'error-notOwner' })
  t.match(await copy([inside.id], own.id), { code: 400, status: 'error-folderId' })
  t.same((await copy([own.id], box.id)).data, {})
  const copied = await copy([inside.id, own.id, other.id], box.id, { Prefer: 'return=representation' })
  t.same(Object.keys(copied.data), [inside.id, own.id, other.id])
  t.match(copied.data[inside.id], {
    status: 'ok',
    data: { name: 'inside.txt', size: 5, parentFolder: box.id, isOwner: true },
  })
  t.not(copied.data[inside.id].data.id, inside.id)
  const imported = await ask('POST', '/contents/import', {
    token: ann.token,
    body: { contentsId: shared.id },
  })
  t.same(Object.keys(imported.data), [shared.id])
  t.equal(imported.data[shared.id].status, 'ok')
  t.same(Object.keys(imported.data[shared.id].data), ['id'])
  const copyOfShared = await ask('GET', `/contents/${imported.data[shared.id].data.id}`, { token: ann.token })
  t.match(copyOfShared.data, { name: 'shared', parentFolder: ann.rootFolder, childrenCount: 1 })
  t.match(await ask('POST', '/contents/import', { token: ann.token, body: { contentsId: secret.id } }), {
    code: 401,
    status: 'error-notOwner',
  })
  t.match(await ask('POST', '/contents/import', { token: bob.token, body: {} }), {
    status: 'error-notPremium',
  })
  t.match(await ask('POST', '/contents/import', { token: ann.token, body: {} }), {
    status: 'error-contentsId',
  })
  t.match(await copy([bob.rootFolder], box.id), { status: 'error-notOwner' })
  t.match(await copy([ann.rootFolder], box.id), { code: 403, status: 'error-rootFolder' })
})

t.test('a blob that vanished between manifest and copy is requested once more', async (t) => {
  class BlobGone extends Fault {
    readonly code = 'BLOB_NOT_FOUND'
    readonly category = 'not-found'
  }
  const asked: string[] = []
  let faults = 0
  const { ask, guest, file, folder } = world(t, {
    beforeCall: ({ operation }) => {
      if (operation?.$case === 'takeManifest' || operation?.$case === 'copyContents')
        asked.push(operation.$case)
      if (operation?.$case === 'copyContents' && faults-- > 0) throw new BlobGone()
    },
  })
  const [ann, bob] = [await guest('premium'), await guest()]
  const shared = await folder(bob, bob.rootFolder, { public: true })
  const note = await file(bob, shared.id, 'note.txt')
  const take = () => ask('POST', '/contents/import', { token: ann.token, body: { contentsId: note.id } })
  faults = 1
  t.match(await take(), { code: 200 })
  t.same(asked, ['takeManifest', 'copyContents', 'takeManifest', 'copyContents'])
  faults = 2
  t.match(await take(), { code: 500, status: 'error-internal' })
})

t.test('search answers by id, newest first, with pages', async (t) => {
  const { ask, guest, file, folder } = world(t)
  const ann = await guest('premium')
  const top = await folder(ann, ann.rootFolder, { folderName: 'Top' })
  const deep = await folder(ann, top.id, { folderName: 'deep' })
  const hit = await file(ann, deep.id, 'Top secret.txt')
  const find = (query: string) => ask('GET', `/contents/search?${query}`, { token: ann.token })
  const found = await find(`contentId=${ann.rootFolder}&searchedString=TOP`)
  t.same(Object.keys(found.data).sort(), [hit.id, top.id].sort())
  t.match(found.data[hit.id], { id: hit.id, type: 'file', name: 'Top secret.txt', size: 3 })
  t.match(found.data[top.id], { type: 'folder', size: 0 })
  t.match(await find(`contentId=${top.code}&searchedString=secret&page=2&pageSize=1`), {
    code: 200,
    data: {},
    metadata: { page: 2, pageSize: 1, totalCount: 1 },
  })
  t.same((await find(`contentId=${top.id}&searchedString=top&createTimeTo=5`)).data, {})
  t.match(await find('searchedString=x'), { status: 'error-contentId' })
  t.match(await find(`contentId=${top.id}`), { status: 'error-searchedString' })
  t.match(await find(`contentId=${top.id}&searchedString=`), { status: 'error-searchedString' })
  t.match(await find(`contentId=${hit.id}&searchedString=x`), { status: 'error-contentId' })
  t.match(await find(`contentId=${top.id}&searchedString=x&createTimeFrom=now`), {
    status: 'error-createTimeFrom',
  })
})

t.test('direct links are made, replaced and removed by the owner', async (t) => {
  const { ask, guest, file, folder } = world(t)
  const ann = await guest()
  const bob = await guest()
  const note = await file(ann, ann.rootFolder, 'my note.txt')
  const at = `/contents/${note.id}/directlinks`
  const made = await ask('POST', at, {
    token: ann.token,
    body: {
      sourceIpsAllowed: ['10.0.0.0/8', '2001:db8::1'],
      domainsAllowed: ['Example.org'],
      auth: ['ann:se:cret'],
    },
  })
  t.match(made, {
    code: 200,
    data: {
      expireTime: 0,
      sourceIpsAllowed: ['10.0.0.0/8', '2001:db8::1'],
      domainsBlocked: [],
      auth: ['ann'],
      isReqLink: false,
      directLink: `http://dl.example/direct/${note.id}/${made.data.id}/my%20note.txt`,
    },
  })
  t.notMatch(JSON.stringify(made.data), 'se:cret')
  const put = await ask('PUT', `${at}/${made.data.id}`, {
    token: ann.token,
    body: { domainsBlocked: ['x.org'] },
  })
  t.match(put.data, { id: made.data.id, sourceIpsAllowed: [], domainsBlocked: ['x.org'], auth: [] })
  const premium = await guest('premium')
  const box = await folder(premium, premium.rootFolder, { folderName: 'box' })
  const zip = await ask('POST', `/contents/${box.id}/directlinks`, { token: premium.token })
  t.match(zip.data.directLink, /\/box\.zip$/)
  const listed = await ask('GET', `/contents/${box.id}`, { token: premium.token })
  t.same(Object.keys(listed.data.directLinks), [zip.data.id])
  const bad = async (body: object) => (await ask('POST', at, { token: ann.token, body })).status
  t.equal(await bad({ expireTime: 5 }), 'error-expireTime')
  t.equal(await bad({ expireTime: 'soon' }), 'error-expireTime')
  t.equal(await bad({ sourceIpsAllowed: ['1.2.3'] }), 'error-sourceIpsAllowed')
  t.equal(await bad({ sourceIpsAllowed: '1.2.3.4' }), 'error-sourceIpsAllowed')
  t.equal(await bad({ domainsAllowed: ['a b'] }), 'error-domainsAllowed')
  t.equal(await bad({ domainsBlocked: [7] }), 'error-domainsBlocked')
  t.equal(await bad({ auth: ['nocolon'] }), 'error-auth')
  t.equal(await bad({ auth: Array.from({ length: 101 }, () => 'a:b') }), 'error-auth')
  t.match(await ask('POST', at, { token: bob.token }), { code: 401, status: 'error-notOwner' })
  t.match(await ask('DELETE', `${at}/x`, { token: ann.token }), { code: 400, status: 'error-directLinkId' })
  t.match(await ask('DELETE', `${at}/${unknownId}`, { token: ann.token }), {
    code: 404,
    status: 'error-notFound',
  })
  t.same((await ask('DELETE', `${at}/${made.data.id}`, { token: ann.token })).data, {})
  t.match(await ask('PUT', `${at}/${made.data.id}`, { token: ann.token }), { code: 404 })
})

t.test('where direct links are premium, every owner can still remove them', async (t) => {
  const { ask, command, file, guest } = world(t, { settings: { directLinksPremium: true } })
  const { token, ...ann } = await guest('premium')
  const at = `/contents/${(await file({ token, ...ann }, ann.rootFolder, 'note.txt')).id}/directlinks`
  const made = await ask('POST', at, { token })
  t.match(made, { code: 200 })
  const one = `${at}/${made.data.id}`
  t.match(await ask('PUT', one, { token }), { code: 200 })
  await command(ann.id, { $case: 'setAccount', value: { ...blank(SetAccount), tier: 'standard' } })
  const notPremium = { code: 401, status: 'error-notPremium' }
  for (const body of [{}, { expireTime: 'soon' }]) {
    t.match(await ask('POST', at, { token, body }), notPremium, 'before the parameters are checked')
    t.match(await ask('PUT', one, { token, body }), notPremium)
  }
  t.match(await ask('DELETE', one, { token }), { code: 200, data: {} })
})

t.test('the recycle bin shows, restores and empties', async (t) => {
  const { ask, guest, file, command } = world(t)
  const ann = await guest()
  await command(ann.id, { $case: 'setAccount', value: { ...blank(SetAccount), recycleBin: true } })
  const [one, two] = [await file(ann, ann.rootFolder, 'one'), await file(ann, ann.rootFolder, 'two')]
  const call = (method: string, path: string, body?: object) =>
    ask(method, path, { token: ann.token, ...(body ? { body } : {}) })
  await call('DELETE', '/contents', { contentsId: `${one.id},${two.id}` })
  const bin = await call('GET', '/recyclebin')
  t.equal(bin.data.childrenCount, 2)
  t.match(bin.data.children[one.id], { name: 'one', type: 'file' })
  t.ok(bin.data.children[one.id].recycledTime)
  t.same((await call('POST', '/recyclebin/restore', { contentsId: one.id })).data, {})
  t.match(await call('GET', `/web/contents/${one.id}`), { code: 200 })
  t.same((await call('DELETE', '/recyclebin')).data, {})
  t.match(await call('POST', '/recyclebin/restore', { contentsId: two.id }), { code: 404 })
})

t.test('a repeated Idempotency-Key has one effect', async (t) => {
  const { ask, clock, guest } = world(t)
  const ann = await guest('premium')
  const make = (key: string, folderName = 'once') =>
    ask('POST', '/contents/createFolder', {
      token: ann.token,
      body: { parentFolderId: ann.rootFolder, folderName },
      'idempotency-key': key,
    })
  const first = await make('key-1')
  t.equal((await make('key-1')).data.id, first.data.id)
  t.not((await make('key-2')).data.id, first.data.id)
  const taken = { code: 400, status: 'error-idempotencyKey' }
  t.match(await make('key-1', 'another'), taken, 'a key is valid for one set of parameters')
  // In the same millisecond, or through a frontend whose clock is behind.
  clock.aheadMs -= 500
  t.equal((await make('key-1')).data.id, first.data.id)
  const remove = (contentsId: string) =>
    ask('DELETE', '/contents', { token: ann.token, body: { contentsId }, 'idempotency-key': 'key-1' })
  const second = await make('key-3')
  t.match(await remove(second.data.id), { code: 200 }, 'of another operation')
  t.match(await remove(second.data.id), { code: 200 })
  t.match(await remove(first.data.id), taken)
  t.match(await make('\u00e9'), { code: 400, status: 'error-idempotencyKey' })
  const listed = await ask('GET', `/contents/${ann.rootFolder}`, { token: ann.token })
  t.equal(listed.data.childrenCount, 2)
  for (let at = 0; at < 1_024; at++)
    await ask('PUT', `/contents/${ann.rootFolder}/update`, {
      token: ann.token,
      body: { attribute: 'description', attributeValue: `${at}` },
      'idempotency-key': `other ${at}`,
    })
  t.match(await make('key-3'), { code: 409, status: 'error-alreadyDone' }, 'after 1,024 others')
})

t.test('a website token draws on the budget of the pages path', async (t) => {
  const budget = { quota: 1_000, windowSeconds: 60 }
  const { ask, folder, guest } = world(t, {
    limits: {
      standard: budget,
      endpoints: { webContents: { quota: 2, windowSeconds: 60 } },
      accounts: {},
      guesses: { token: budget, code: budget, password: budget },
      excess: budget,
    },
  })
  const ann = await guest('premium')
  const open = await folder(ann, ann.rootFolder, { public: true })
  t.equal((await ask('GET', `/contents/${open.id}?wt=x`)).code, 200)
  t.equal((await ask('GET', `/web/contents/${open.id}`)).code, 200)
  t.match(await ask('GET', `/contents/${open.id}`, { 'x-website-token': 'x' }), {
    code: 429,
    status: 'error-rateLimit',
  })
  t.equal((await ask('GET', `/contents/${open.id}`, { token: ann.token })).code, 200)
})

/** Lets `change` happen before the second slice of the next answer is made. */
class BetweenSlices extends AnswerBudget {
  change: (() => Promise<void>) | undefined
  changed = 0

  override open(...network: Parameters<AnswerBudget['open']>) {
    const share = super.open(...network)
    const take = share.take.bind(share)
    let taken = 0
    share.take = (bytes) => {
      const room = take(bytes)
      const { change } = this
      if (++taken !== 2 || change === undefined) return room
      this.change = undefined
      return Promise.resolve(room).then(async () => {
        await change()
        this.changed++
      })
    }
    return share
  }
}

t.test('a running listing keeps the state of its start', async (t) => {
  const answers = new BetweenSlices(plainBudget)
  const { ask, command, file, folder, guest } = world(t, { answers })
  const owner = await guest('premium')
  const { token } = owner
  const top = await folder(owner, owner.rootFolder)
  const long = '\u{1f4c4}'.repeat(2_000)
  const ids: string[] = []
  for (let n = 0; n < 250; n++) {
    const { id } = await folder(owner, top.id, { folderName: `before ${n}` })
    await update(id, { $case: 'description', value: long })
    ids.push(id)
  }
  const last = (await file(owner, top.id, 'last before')).id
  await update(last, { $case: 'tags', value: 'before' })
  const plain = (await file(owner, top.id, 'plain before')).id
  const linked = [last, ...ids.slice(-5)]
  const links = await Promise.all(linked.map((id) => putLink(id, 'before.example')))
  const url = `/contents/${top.id}?sortField=name&sortDirection=1`
  const before = await ask('GET', url, { token })
  t.equal(Object.keys(before.data.children).length, 252)
  answers.change = async () => {
    for (const [at, id] of linked.entries()) {
      await putLink(id, 'after.example', links[at])
      await putLink(id, 'more.example')
    }
    for (const id of ids) {
      await update(id, { $case: 'name', value: 'after' })
      await update(id, { $case: 'description', value: 'after' })
    }
    for (const id of [last, plain]) await update(id, { $case: 'name', value: 'after' })
    const contentIds = [...ids.slice(50), last, plain]
    await command(owner.id, { $case: 'deleteContents', value: { contentIds, permanent: true } as never })
    for (let n = 0; n < 10; n++) await folder(owner, top.id, { folderName: `new ${n}` })
  }
  const during = await ask('GET', url, { token })
  t.equal(answers.changed, 1)
  // Except for the time at which its links end.
  const textOf = ({ data }: typeof before) => JSON.stringify(data).replace(/\?c=[\w-]+/g, '')
  t.equal(textOf(during), textOf(before))
  t.not(Object.keys((await ask('GET', url, { token })).data.children).length, 252)

  async function update(contentId: string, attribute: UpdateContent['attribute']) {
    await command(owner.id, { $case: 'updateContent', value: { contentId, attribute } })
  }

  async function putLink(contentId: string, domain: string, linkId?: string): Promise<string> {
    const link = { ...blank(DirectLink), domainsAllowed: [domain] }
    const made = await command(owner.id, { $case: 'putDirectLink', value: { contentId, link, linkId } })
    return made?.$case === 'directLink' ? (made.value.link?.id ?? '') : ''
  }
})
