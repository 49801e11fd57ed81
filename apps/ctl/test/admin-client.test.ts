import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { adminClient } from '../src/admin-client.ts'

/** The name of the dispatcher that `fetch` uses, which has a limit of five minutes. */
const dispatcher = Symbol.for('undici.globalDispatcher.1')

t.test('an answer may take longer than fetch waits', async (t) => {
  const server = createServer((_request, response) => {
    setTimeout(() => response.end('{"status":"ok","data":{"done":true}}'), 3_000)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  await fetch('data:,')
  type Dispatcher = { constructor: new (options: object) => object }
  const global = globalThis as unknown as Record<symbol, Dispatcher>
  const usual = global[dispatcher] as Dispatcher
  Object.assign(globalThis, { [dispatcher]: new usual.constructor({ headersTimeout: 200 }) })
  t.teardown(() => Object.assign(globalThis, { [dispatcher]: usual }))

  const [fetched, called] = await Promise.allSettled([
    fetch(url),
    adminClient({ url, token: undefined, operator: undefined, ca: undefined })(
      'POST',
      '/admin/reconcile',
      {},
    ),
  ])
  t.equal(fetched.status, 'rejected')
  t.match(called, { status: 'fulfilled', value: { done: true } })
})
