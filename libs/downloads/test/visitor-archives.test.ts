/** Links of archives for visitors: how long they open, and what is counted. */

import { createHash } from 'node:crypto'
import { signArchiveCapability } from '@holdfast/access'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { systemClock } from '@holdfast/kernel'
import { BlockLists } from '@holdfast/moderation'
import t, { type Test } from 'tap'
import { OneProcess, type OneProcessOptions } from '../../../test/support/one-process.ts'

async function start(t: Test, options: OneProcessOptions = {}) {
  const process = await OneProcess.start(options)
  t.teardown(() => process.close())
  const put = async (text: string, fields: Record<string, string> = {}) => {
    const form = new FormData()
    for (const [name, value] of Object.entries(fields)) form.set(name, value)
    form.set('file', new File([text], 'a.txt'))
    const path = `http://127.0.0.1:${process.uploadPort}/uploadfile`
    const answer = await fetch(path, { method: 'POST', body: form })
    const { data } = (await answer.json()) as { data: Record<string, string> }
    return { id: '', parentFolder: '', guestToken: '', ...data }
  }
  const linkOf = (contentIds: string[], ends: number) => {
    const key = process.keyring.derive('capability')
    const capability = signArchiveCapability(key, { contentIds, passwordVersions: [], ends })
    return `http://127.0.0.1:${process.downloadPort}/download/archive/any.zip?c=${capability}`
  }
  return { process, put, linkOf }
}

const laterSeconds = () => Math.floor(Date.now() / 1000) + 3_600

t.test('a link opens until it ends; a newer one continues the same archive', async (t) => {
  const { put, linkOf } = await start(t)
  const { parentFolder } = await put('some text')
  const over = await fetch(linkOf([parentFolder], Math.floor(Date.now() / 1000)))
  t.equal(over.status, 404)
  t.same(await over.json(), { status: 'error-notFound' })
  const whole = await fetch(linkOf([parentFolder], laterSeconds()))
  t.equal(whole.status, 200)
  const bytes = Buffer.from(await whole.arrayBuffer())
  const headers = { range: 'bytes=10-', 'if-range': whole.headers.get('etag') ?? '' }
  const rest = await fetch(linkOf([parentFolder], laterSeconds() + 1), { headers })
  t.equal(rest.status, 206)
  t.ok(Buffer.from(await rest.arrayBuffer()).equals(bytes.subarray(10)))
})

t.test('traffic counts as that of the web, and no file counts a download', async (t) => {
  const { process, put, linkOf } = await start(t)
  const { parentFolder, guestToken, id } = await put('some text')
  const { byteLength } = await (await fetch(linkOf([parentFolder], laterSeconds()))).arrayBuffer()
  await process.downloads.close()
  const account = await process.ask(guestToken, 'account', { $case: 'getAccount', value: {} })
  t.match(account, { trafficWeb: byteLength, trafficDirect: 0 })
  const value = { contentId: id, password: undefined }
  const { item } = await process.ask(guestToken, 'file', { $case: 'openFile', value })
  t.equal(item?.downloads, 0)
})

t.test('an archive begun before a file was taken down does not continue with it', async (t) => {
  const lookups = new MemoryLookupStore()
  const blocked = await BlockLists.open({ lookups, clock: systemClock, onChange: undefined })
  const { put, linkOf } = await start(t, { blocked })
  const bad = 'taken down'
  const { parentFolder: folderId, guestToken: token } = await put(bad)
  await put('stays', { token, folderId })
  const link = linkOf([folderId], laterSeconds())
  const first = await fetch(link)
  const etag = first.headers.get('etag') ?? ''
  t.match(await first.text(), bad)
  await blocked.block('content', [createHash('md5').update(bad).digest('hex')], { by: 'ann', reason: '' })
  const second = await fetch(link, { headers: { range: 'bytes=10-', 'if-range': etag } })
  t.equal(second.status, 200, 'the whole new archive')
  t.not(second.headers.get('etag'), etag)
  const text = await second.text()
  t.match(text, 'stays')
  t.notMatch(text, bad)
})
