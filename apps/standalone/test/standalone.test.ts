import { mkdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'
import { recorded } from '../../../test/support/settings-read.ts'
import { call, dataDir, startHere, uploadText } from './run.ts'

t.test('two services run in one process and are independent', async (t) => {
  let settingsRead: Set<string> | undefined
  const [one, two] = await Promise.all([
    startHere(dataDir(t), {}, (given) => {
      const { config, read } = recorded(given)
      settingsRead = read
      return config
    }),
    startHere(join(dataDir(t), 'made', 'by', 'us')),
  ])
  t.teardown(() => Promise.all([one.close(), two.close()]))
  // If a line of the golden file is missing now, a setting does not reach the code that uses it.
  sameAsGolden(t, import.meta.dirname, 'settings-read.txt', [...(settingsRead ?? [])].sort())
  const { data: file } = await uploadText(one.addresses.upload, { name: 'a.txt', text: 'of one' })
  const page = (service: typeof one) => fetch(`${service.addresses.web}/d/${file.parentFolderCode}`)
  t.equal((await page(one)).status, 200)
  t.equal((await page(two)).status, 404)
  const authorization = `Bearer ${file.guestToken}`
  t.equal(
    (await call(`${two.addresses.api}/accounts/getid`, { headers: { authorization } })).status,
    'error-token',
  )
  const metrics = await Promise.all(
    [one, two].map(async ({ addresses }) => (await fetch(`${addresses.admin}/metrics`)).text()),
  )
  t.match(metrics[0], /holdfast_store_blobs 1\n/)
  t.match(metrics[1], /holdfast_store_blobs 0\n/)
})

t.test('acknowledged content is there after a stop and a start, with ids, codes and tokens', async (t) => {
  const dir = dataDir(t)
  const first = await startHere(dir)
  const { data: file } = await uploadText(first.addresses.upload, { name: 'kept.txt', text: 'kept' })
  await first.close()
  await first.close()
  const second = await startHere(dir)
  t.teardown(() => second.close())
  const headers = { authorization: `Bearer ${file.guestToken}` }
  const link = await call(`${second.addresses.api}/contents/${file.id}/directlinks`, {
    method: 'POST',
    headers,
  })
  t.equal(link.status, 'ok')
  t.equal(await (await fetch(link.data.directLink)).text(), 'kept')
  const page = await (await fetch(`${second.addresses.web}/d/${file.parentFolderCode}`)).text()
  t.match(page, 'kept.txt')
})

t.test('a data directory belongs to one process, and the message says that it is locked', async (t) => {
  const dir = dataDir(t)
  const holder = await startHere(dir)
  await t.rejects(startHere(dir), { code: 'DATA_LOCKED', message: new RegExp(`process ${process.pid} `) })
  await holder.close()
  const next = await startHere(dir)
  await next.close()
})

t.test('metadata that the disk does not read is not called locked', async (t) => {
  const dir = dataDir(t)
  await (await startHere(dir)).close()
  const current = join(dir, 'metadata/rows/CURRENT')
  rmSync(current)
  mkdirSync(current)
  await t.rejects(startHere(dir), { code: 'DATA_UNUSABLE', message: /metadata.*directory/ })
})

t.test('an unusable directory is refused with a message', async (t) => {
  const files = t.testdir({ file: 'not a directory' })
  const refusal = { code: 'DATA_UNUSABLE', message: /HOLDFAST_DATA_DIR/ }
  await t.rejects(startHere(join(files, 'file')), refusal)
  await t.rejects(startHere(join(files, 'file', 'below')), refusal)
})

t.test('a taken port is reported with its setting, and nothing stays open or locked', async (t) => {
  const taken = createServer()
  const port = await new Promise<number>((resolve) => {
    taken.listen(0, '127.0.0.1', () => resolve((taken.address() as { port: number }).port))
  })
  t.teardown(() => taken.close())
  const dir = dataDir(t)
  const start = startHere(dir, { HOLDFAST_DOWNLOAD_PORT: String(port) })
  await t.rejects(start, { code: 'PORT_TAKEN', message: new RegExp(`${port} .*HOLDFAST_DOWNLOAD_PORT`) })
  const next = await startHere(dir)
  await next.close()
})

t.test('the admin host accepts calls without a token only from this machine', async (t) => {
  const service = await startHere(dataDir(t), { HOLDFAST_ADMIN_TOKEN: 'operator-secret-0123456789' })
  t.teardown(() => service.close())
  const { admin } = service.addresses
  const asked = (headers: Record<string, string>, path = '/admin/status') =>
    call(`${admin}${path}`, { headers })
  t.equal((await asked({})).code, 200)
  t.equal((await asked({ authorization: 'Bearer operator-secret-0123456789' })).code, 200)
  t.equal((await asked({ authorization: 'Bearer operator-secret-012345678' })).status, 'error-token')
  t.equal((await asked({ origin: 'https://evil.example' })).status, 'error-forbidden')
  t.equal((await asked({ 'x-forwarded-for': '192.0.2.1' })).status, 'error-token')
  t.equal((await asked({ 'x-forwarded-for': '192.0.2.1' }, '/metrics')).status, 'error-token')
  t.equal((await asked({ 'x-forwarded-for': '192.0.2.1' }, '/livez')).code, 200)
  const verbose = await asked({ 'x-forwarded-for': '192.0.2.1' }, '/readyz?verbose')
  t.same([verbose.code, verbose.data], [200, {}], 'orchestrators learn whether, not why')
  t.same((await asked({}, '/readyz?verbose')).data.checks, { phase: 'ready', metadata: 'ok', store: 'ok' })
  t.match(await asked({}, '/admin/nothing'), { code: 404, status: 'error-notFound' })
  t.match(await call(`${admin}/admin/collect`, { method: 'POST', body: '{"graceSeconds":-1}' }), {
    code: 400,
    status: 'error-graceSeconds',
  })
})

t.test('an account can switch its recycle bin, and nothing else of itself', async (t) => {
  const service = await startHere(dataDir(t))
  t.teardown(() => service.close())
  const { api } = service.addresses
  const { data: account } = await call(`${api}/accounts`, { method: 'POST' })
  const headers = { authorization: `Bearer ${account.token}`, 'content-type': 'application/json' }
  const wrong = account.token.slice(0, -1) + (account.token.endsWith('A') ? 'B' : 'A')
  const put = (body: unknown, sent: Record<string, string> = headers) =>
    call(`${api}/web/account`, { method: 'PUT', headers: sent, body: JSON.stringify(body) })
  t.equal((await put({ recycleBin: true })).status, 'ok')
  t.equal((await call(`${api}/accounts/${account.id}`, { headers })).data.recycleBin.enabled, true)
  t.equal((await put({ recycleBin: 'perhaps' })).status, 'error-recycleBin')
  t.equal((await put({ tier: 'premium' })).status, 'error-recycleBin')
  t.equal((await put({ recycleBin: 'perhaps' }, {})).status, 'error-token')
  t.equal((await put({ recycleBin: 5, token: wrong }, {})).status, 'error-token')
  t.equal((await call(`${api}/accounts/getid`, { headers })).data.tier, 'guest')
})

t.test('unreferenced bytes are freed, and referenced ones are not', async (t) => {
  const dir = dataDir(t)
  const first = await startHere(dir)
  const upload = async (text: string) =>
    (await uploadText(first.addresses.upload, { name: 'a.txt', text })).data
  const [kept, gone] = [await upload('kept'), await upload('gone, gone')]
  const headers = { authorization: `Bearer ${gone.guestToken}` }
  const body = JSON.stringify({ contentsId: gone.id })
  t.equal((await call(`${first.addresses.api}/contents`, { method: 'DELETE', headers, body })).status, 'ok')
  await first.close()
  // A new process does not have the pins of its predecessor's uploads.
  const second = await startHere(dir)
  t.teardown(() => second.close())
  const collect = () =>
    call(`${second.addresses.admin}/admin/collect`, { method: 'POST', body: '{"graceSeconds": 0}' })
  // The reference is removed in the background, soon after the answer to the delete.
  let collected = await collect()
  while (collected.data.deleted === 0) collected = await collect()
  t.match(collected.data, { deleted: 1, freedBytes: 10, liveBytes: 4, blobs: 1 })
  t.match((await collect()).data, { deleted: 0, freedBytes: 0, liveBytes: 4, blobs: 1 })
  t.equal((await fetch(kept.link.replace(first.addresses.download, second.addresses.download))).status, 200)
})
