/** Content that the operator took down, on every way to its bytes. */
import { createHash } from 'node:crypto'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { systemClock } from '@holdfast/kernel'
import { BlockLists } from '@holdfast/moderation'
import { blank, DirectLink } from '@holdfast/wire'
import t, { type Test } from 'tap'
import { OneProcess } from '../../../test/support/one-process.ts'

const asked = { by: 'ann', reason: '' }
const bad = 'taken down'
const md5 = createHash('md5').update(bad).digest('hex')

async function start(t: Test) {
  const blocked = await BlockLists.open({
    lookups: new MemoryLookupStore(),
    clock: systemClock,
    onChange: undefined,
  })
  const process = await OneProcess.start({ blocked })
  t.teardown(() => process.close())
  const download = `http://127.0.0.1:${process.downloadPort}`
  // biome-ignore lint/suspicious/noExplicitAny: the test inspects answers
  const put = async (text: string, fields: Record<string, string> = {}): Promise<any> => {
    const form = new FormData()
    for (const [name, value] of Object.entries(fields)) form.set(name, value)
    form.set('file', new File([text], 'a.txt'))
    const path = `http://127.0.0.1:${process.uploadPort}/uploadfile`
    const answer = await fetch(path, { method: 'POST', body: form })
    return { code: answer.status, ...((await answer.json()) as object) }
  }
  const link = async (token: string, contentId: string) => {
    const { link } = await process.ask(token, 'directLink', {
      $case: 'putDirectLink',
      value: { contentId, linkId: undefined, link: blank(DirectLink) },
    })
    return `${download}/direct/${contentId}/${link?.id}/name`
  }
  return { process, blocked, put, link, download }
}

t.test('links, direct links, copies and archives of it answer 451 until it is undone', async (t) => {
  const { blocked, put, link, download } = await start(t)
  const { data: one } = await put(bad)
  const into = { token: one.guestToken, folderId: one.parentFolder }
  const { data: good } = await put('something else', into)
  const { data: copy } = await put(bad)
  const goodZip = await link(copy.guestToken, copy.parentFolder)
  const paths = [
    `${download}/download/${one.id}/a.txt`,
    `${download}/download/${copy.id}/a.txt`,
    await link(one.guestToken, one.id),
    await link(one.guestToken, one.parentFolder),
    goodZip,
  ]
  const others = [`${download}/download/${good.id}/a.txt`, await link(one.guestToken, good.id)]
  const codes = (of: string[], init: RequestInit = {}) =>
    Promise.all(
      of.map(async (path) => {
        const answer = await fetch(path, init)
        await answer.arrayBuffer()
        return answer.status
      }),
    )
  const all = (code: number) => paths.map(() => code)
  t.same(await codes(paths), all(200))
  const { etag } = Object.fromEntries((await fetch(paths[0] as string)).headers)
  const { act } = await blocked.block('content', [md5], asked)
  t.same(await codes(paths), all(451), 'answers that were prepared before are checked too')
  t.same(await codes(paths, { method: 'HEAD' }), all(451))
  t.same(await codes(paths, { headers: { range: 'bytes=1-' } }), all(451))
  t.same(await codes([paths[0] as string], { headers: { 'if-none-match': etag ?? '' } }), [451])
  t.same(await codes([paths[0] as string], { headers: { authorization: `Bearer ${one.guestToken}` } }), [451])
  t.same(await (await fetch(paths[0] as string)).json(), { status: 'error-blocked' })
  t.same(await codes(others), [200, 200])
  await blocked.undo(act.id, asked)
  t.same(await codes(paths), all(200))
})

t.test('nothing of a suspended account is read or changed, and all of it comes back', async (t) => {
  const { process, blocked, put, link, download } = await start(t)
  const { data: one } = await put('its file')
  const { data: other } = await put('of another')
  const authorization = `Bearer ${one.guestToken}`
  const [file, direct] = [`${download}/download/${one.id}/a`, await link(one.guestToken, one.id)]
  const code = async (path: string, headers = {}) => (await fetch(path, { headers })).status
  const codes = async () => [await code(file), await code(file, { authorization }), await code(direct)]
  t.same(await codes(), [200, 200, 200])
  const id = process.keyring.ids.accountOf(one.id) as string
  const { act } = await blocked.block('account', [id], asked)
  t.same(await codes(), [451, 451, 451], 'also answers that were kept')
  const into = { token: one.guestToken, folderId: one.parentFolder }
  t.match(await put('more', into), { code: 451, status: 'error-blocked' })
  t.equal(await code(`${download}/download/${other.id}/a`), 200)
  await blocked.undo(act.id, asked)
  t.same(await codes(), [200, 200, 200])
  t.match(await put('more', into), { code: 200 })
})

t.test('clients of a banned network are refused on every public path', async (t) => {
  const { blocked, put, download } = await start(t)
  const { data: one } = await put('a file')
  const code = async (path: string, from: string) =>
    (await fetch(`${download}${path}`, { headers: { 'x-forwarded-for': from } })).status
  const file = `/download/${one.id}/a`
  const { act } = await blocked.block('network', ['192.0.2.0/24', '2001:db8::/32'], asked)
  for (const from of ['192.0.2.7', '::ffff:192.0.2.7', '2001:db8:1::1']) {
    t.equal(await code(file, from), 403, from)
    t.equal(await code('/unknown', from), 403, from)
  }
  for (const from of ['192.0.3.1', '2001:db9::1']) t.equal(await code(file, from), 200, from)
  await blocked.undo(act.id, asked)
  t.equal(await code(file, '192.0.2.7'), 200)
})

t.test('an upload of it is refused after its bytes, and makes no account and no file', async (t) => {
  const { process, blocked, put } = await start(t)
  const { token, root } = await process.newAccount()
  await blocked.block('content', [md5], asked)
  const into = { token, folderId: root }
  t.match(await put(bad, into), { code: 451, status: 'error-blocked' })
  t.match(await put(bad), { code: 451, status: 'error-blocked' })
  const account = await process.ask(token, 'account', { $case: 'getAccount', value: {} })
  t.same([account.fileCount, account.storage], [0, 0])
  t.equal((await process.blobs.usage()).openStages, 0)
  t.match(await put('something else', into), { code: 200 })
})
