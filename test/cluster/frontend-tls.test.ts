/** Frontends of a cluster that answer only proxies, by TLS. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import https from 'node:https'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { clusterNames } from '@holdfast/trust'
import { pino } from 'pino'
import t from 'tap'
import { newMemoryCluster } from './in-memory.ts'

const options = {
  logOf: () => pino({ level: 'silent' }),
  settings: { HOLDFAST_FRONTEND_TLS: 'required' },
}

t.test('files go through frontends that answer only proxies', async (t) => {
  const cluster = await newMemoryCluster(t, options)
  const { api, upload, nodes } = await cluster.startAll('')
  const at = (name: string) => readFileSync(join(cluster.directory, 'certs/machine', name))
  const agent = new https.Agent({
    ...{ ca: at('ca.pem'), cert: at('proxy.pem'), key: at('proxy.key') },
    servername: clusterNames.frontend,
  })
  const asked = async (url: string, headers: Record<string, string> = {}, sent?: Response) => {
    const type = sent?.headers.get('content-type')
    const request = https.request(url, {
      agent,
      method: sent === undefined ? 'GET' : 'POST',
      headers: { ...headers, ...(type && { 'content-type': type }) },
    })
    request.end(sent && Buffer.from(await sent.arrayBuffer()))
    const [response] = await once(request, 'response')
    return { code: response.statusCode as number, body: await buffer(response) }
  }
  const bytes = Buffer.alloc(3_000_000, 'holdfast')
  const form = new FormData()
  form.set('file', new Blob([bytes]), 'file.bin')
  const stored = await asked(`${upload.addresses.upload}/uploadfile`, {}, new Response(form))
  t.equal(stored.code, 200, stored.body.toString())
  const { data } = JSON.parse(stored.body.toString())
  const headers = { authorization: `Bearer ${data.guestToken}` }
  const whole = await asked(`${upload.addresses.download}/download/${data.id}/file.bin`, headers)
  t.equal(whole.code, 200)
  t.ok(whole.body.equals(bytes))
  t.equal((await asked(`${api.addresses.api}/contents/${data.parentFolder}`, headers)).code, 200)

  const hosts = [
    ...[api.addresses.api, upload.addresses.upload, upload.addresses.download],
    ...nodes.map(({ addresses }) => addresses.download),
  ]
  for (const address of hosts) {
    t.match(address, 'https://')
    await t.rejects(fetch(`${address?.replace('https:', 'http:')}/regions`), `${address} without TLS`)
  }
  const metrics = await (await fetch(`${api.addresses.admin}/metrics`)).text()
  t.match(metrics, 'holdfast_connections_refused_total{host="api",reason="handshake"} 1')
})

t.test('a frontend whose certificate proxies would refuse does not start', async (t) => {
  const cluster = await newMemoryCluster(t, options)
  await cluster.authority.issue({ host: 'machine', names: ['127.0.0.1'] }, { days: 2 })
  await t.rejects(cluster.startAll(''), {
    name: 'SettingsFault',
    message: /node\.pem lacks the name frontend\.holdfast\.internal/,
  })
})
