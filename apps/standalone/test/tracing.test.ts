/** Traces of the embedded service: one request is one trace, and no secret is in it. */
import t from 'tap'
import { otlpReceiver } from '../../../test/support/otlp-receiver.ts'
import { call, dataDir, startHere, uploadText } from './run.ts'

t.test('each request is one trace, through all parts of the service', async (t) => {
  const receiver = await otlpReceiver(t)
  const service = await startHere(dataDir(t), {
    HOLDFAST_TRACE_URL: receiver.url,
    HOLDFAST_SERVER_NAME: 'one',
    HOLDFAST_RATE_LIMITS: 'off',
  })
  t.teardown(() => service.close())
  const { api, upload } = service.addresses
  const { data } = await uploadText(upload, { name: 'secret-name.txt', text: 'secret bytes' })
  const traceId = 'c0ffee'.padEnd(32, '0')
  const answer = await call(`${api}/contents/${data.id}/update?token=${data.guestToken}`, {
    method: 'PUT',
    headers: {
      authorization: `Bearer ${data.guestToken}`,
      'content-type': 'application/json',
      traceparent: `00-${traceId}-00000000000000ab-01`,
      'x-request-id': 'someone@mail.example.org',
    },
    body: JSON.stringify({ attribute: 'name', attributeValue: 'other-name.txt' }),
  })
  t.equal(answer.code, 200)
  await call(`${api}/accounts/website/secret-path?email=someone@mail.example.org`, {
    headers: { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-00` },
  })
  await call(`${api}/contents/${data.parentFolder}?password=secret-password`, {
    headers: { traceparent: 'secret-parent', 'user-agent': 'secret-agent' },
  })
  await service.close()

  const changed = receiver.arrows(traceId)
  for (const arrow of [
    'one:  > PUT /contents/:contentId/update',
    'one: PUT /contents/:contentId/update > ask updateContent',
    'one: ask updateContent > account updateContent',
    'one: account updateContent > flush',
    'one: flush > journal append',
  ])
    t.ok(changed.includes(arrow), `${arrow} is among ${changed.join(', ')}`)
  const [root] = receiver.spans.filter(({ name }) => name === 'PUT /contents/:contentId/update')
  t.match(root, {
    parentSpanId: '00000000000000ab',
    attributes: { 'http.route': '/contents/:contentId/update', 'http.response.status_code': 200 },
  })

  const sent = receiver.spans.find(({ name }) => name === 'POST /uploadfile')
  const uploaded = receiver.arrows(sent?.traceId ?? '')
  for (const arrow of [
    'one: POST /uploadfile > blobs commit',
    'one: POST /uploadfile > ask addFile',
    'one: account addFile > journal acquire',
    'one: flush > lookups write',
  ])
    t.ok(uploaded.includes(arrow), `${arrow} is among ${uploaded.join(', ')}`)
  t.strictSame(receiver.arrows('a'.repeat(32)), [], 'its client decided against it')

  const texts = receiver.texts.join('\n')
  const secrets = [data.guestToken, 'secret', 'other-name', 'mail.example', 'someone', '127.0.0.1']
  for (const secret of secrets) t.notOk(texts.includes(secret), `no span has ${secret}`)
})

t.test('clients do not choose what is traced, and a collector that is away changes nothing', async (t) => {
  const receiver = await otlpReceiver(t)
  const few = await startHere(dataDir(t), {
    HOLDFAST_TRACE_URL: receiver.url,
    HOLDFAST_TRACE_ONE_IN: '1000000',
  })
  t.teardown(() => few.close())
  const chosen = ['0'.repeat(30).concat('01'), '1'.padEnd(32, '0'), 'f'.repeat(32)]
  for (const traceId of chosen)
    await fetch(`${few.addresses.api}/servers`, {
      headers: { traceparent: `00-${traceId}-00000000000000ab-01` },
    })
  await few.close()
  t.strictSame(receiver.spans, [])

  const alone = await startHere(dataDir(t), { HOLDFAST_TRACE_URL: 'http://127.0.0.1:9' })
  t.teardown(() => alone.close())
  t.equal((await uploadText(alone.addresses.upload, { name: 'a.txt', text: 'a' })).status, 'ok')
  await alone.close()
})
