import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { OneProcess } from '../../../test/support/one-process.ts'
import { eitherOf, form, from, head, holds, type Piece, post, raw, received, start } from './posting.ts'

t.test('no network takes all places, and a close lets running uploads end', async (t) => {
  const process = await OneProcess.start({ upload: { uploadsPerNetworkMax: 1, drainMs: 300 } })
  const body = form(['file', 'slow', 's'])
  const first = await raw(process, head(body.length), body.subarray(0, -10))
  await received(process, body.length - 10)
  t.equal((await process.blobs.usage()).openStages, 0, 'a few bytes take no stage')
  const second = await post(process, body)
  t.match(second, { code: 429, status: 'error-rateLimit', headers: { 'retry-after': '1' } })
  const closed = process.uploads.close()
  await delay(50)
  first.socket.write(body.subarray(-10))
  await eitherOf(first.socket, 'close')
  t.match(first.text(), /"status":"ok"/, 'what ran has ended well')
  await closed
  await process.close()

  const cut = await OneProcess.start({ upload: { drainMs: 50 } })
  const never = await raw(cut, head(body.length), body.subarray(0, -10))
  await received(cut, body.length - 10)
  await cut.uploads.close()
  t.equal(never.text(), '', 'an upload that does not end is cut')
  await holds(t, cut, 0, 'and leaves nothing')
  await cut.close()
})

/** An upload from this address that has sent this part of its file and sends no more. */
async function stuck(process: OneProcess, address: string, bytes: number) {
  const body = form(['file', Buffer.alloc(1_000_000, 7), 's'])
  return raw(process, head(body.length, `X-Forwarded-For: ${address}\r\n`), body.subarray(0, bytes))
}

t.test('slow uploads of a few networks do not block others', async (t) => {
  const process = await start(t, {
    rateLimits: 'default',
    upload: { trustProxy: ['127.0.0.1'], uploadsPerNetworkMax: 3, uploadsMax: 12, stagesMax: 12 },
  })
  const networks = ['192.0.2.1', '192.0.2.2', '2001:db8:1::1', '2001:db8:2::1']
  const large = form(['file', Buffer.alloc(200_000, 1), 'l'])
  const small = form(['file', 'ordinary', 's'])
  const clients: Awaited<ReturnType<typeof stuck>>[] = []
  for (const [at, network] of networks.entries())
    for (let count = 0; count < 3; count++)
      clients.push(await stuck(process, network, 30_000 + 1_000 * (3 * at + count)))
  let bytes = 0
  for (let at = 0; at < 12; at++) bytes += 30_000 + 1_000 * at
  await received(process, bytes)
  t.equal((await process.blobs.usage()).openStages, 12, 'all stages are taken')
  t.match(
    await post(process, small, from('192.0.2.1')),
    { code: 429, status: 'error-rateLimit' },
    'they get no more',
  )
  t.match(
    await post(process, small, from('2001:db8:1::2')),
    { code: 429, headers: { 'retry-after': '1' } },
    'a /64 is one network',
  )
  t.equal(
    (await post(process, large, from('198.51.100.1'))).code,
    200,
    'another network gets a place at once',
  )
  t.equal((await post(process, small, from('198.51.100.1'))).code, 200)
  const ended = clients.filter(({ text }) => text() !== '')
  t.equal(ended.length, 1, 'one upload made room for both')
  t.match(ended[0]?.text(), /^HTTP\/1\.1 503 [\s\S]*retry-after: 2[\s\S]*error-unavailable/i)
  t.equal(ended[0], clients[0], 'the one with the fewest bytes of the largest network')
  t.equal(await process.metric('holdfast_uploads_without_place_total', { reason: 'made room' }), 1)
  t.equal(await process.metric('holdfast_uploads_without_place_total', { reason: 'network' }), 2)
  t.equal(await process.metric('holdfast_uploads_total', { outcome: 'stored' }), 2)
  t.equal(await process.metric('holdfast_uploads_in_flight_stages'), 11)
  for (const { socket } of clients) socket.destroy()
  await holds(t, process, 2, 'all is as before')
  while ((await process.metric('holdfast_uploads_in_flight')) > 0) await delay(5)
  t.ok((await process.metric('holdfast_uploads_total', { outcome: 'aborted' })) >= 11)
})

t.test('without rate limits no network is refused, and the total bounds apply', async (t) => {
  const process = await start(t, {
    upload: { trustProxy: ['127.0.0.1'], uploadsPerNetworkMax: Number.POSITIVE_INFINITY, uploadsMax: 4 },
  })
  const clients = await Promise.all([1, 2, 3, 4].map(() => stuck(process, '192.0.2.1', 1_000)))
  await received(process, 4_000)
  t.match(
    await post(process, form(['file', 'x', 'x']), from('192.0.2.2')),
    { code: 503, status: 'error-unavailable', headers: { 'retry-after': /\d/ } },
    'none has had its time to get going',
  )
  for (const { socket } of clients) socket.destroy()
  while ((await process.metric('holdfast_uploads_in_flight')) > 0) await delay(5)
  t.equal((await post(process, form(['file', 'x', 'x']), from('192.0.2.1'))).code, 200)
})

t.test('uploads without a token draw on the budget of new accounts, unless they fail', async (t) => {
  const process = await start(t, { rateLimits: 'default', upload: { trustProxy: ['127.0.0.1'] } })
  const { token } = await process.newAccount()
  const file: Piece = ['file', 'x', 'x']
  for (let at = 0; at < 5; at++)
    t.equal(
      (await post(process, form(file, ['modTime', 'never']), from('192.0.2.1'))).status,
      'error-modTime',
    )
  const answers = await Promise.all(
    new Array(130).fill(0).map(() => post(process, form(file), from('192.0.2.1'))),
  )
  const made = answers.filter(({ code }) => code === 200).length
  const refused = answers.filter(({ status }) => status === 'error-rateLimit')
  // The minute may end in between.
  t.ok(made === 120 || made === 130, `${made} accounts`)
  t.equal(made + refused.length, 130)
  t.ok(refused.every(({ headers }) => Number(headers['retry-after']) > 0))
  t.equal(
    (await post(process, form(['token', token], file), from('192.0.2.1'))).code,
    200,
    'with a token it continues',
  )
})
