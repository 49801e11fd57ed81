/** What the processes of a cluster log: whose request a line is about, and no secrets. */

import { createLog } from '@holdfast/http-kit'
import t, { type Test } from 'tap'
import { until } from '../support/until.ts'
import { dataOf, startMemoryCluster } from './in-memory.ts'

interface Line {
  process: string
  text: string
  fields: Record<string, unknown>
}

async function loggingCluster(t: Test) {
  const lines: Line[] = []
  const logOf = (process: string) =>
    createLog({
      level: 'debug',
      destination: {
        write(text: string) {
          lines.push({ process, text, fields: JSON.parse(text) as Line['fields'] })
        },
      },
    })
  return { lines, ...(await startMemoryCluster(t, { logOf, scanner: '' })) }
}

function formOf(bytes: number): FormData {
  const form = new FormData()
  form.set('file', new Blob([Buffer.alloc(bytes, 'bytes')]), 'a.txt')
  return form
}

t.test('one id of a client is in the log of each process that works for its request', async (t) => {
  const { lines, api, upload } = await loggingCluster(t)
  /** The work for a request, and its place; `node` is any storage node. */
  const doneFor = (id: string) =>
    lines
      .filter(({ fields }) => fields.requestId === id)
      .map(({ process, fields }) => {
        const what = fields.path ?? fields.operation ?? String(fields.call).split('/').slice(0, 4).join('/')
        return `${process.replace(/\d$/, '')}: ${what}`
      })
  const seen = async (id: string, ...wanted: RegExp[]) => {
    const missing = () => wanted.filter((one) => !doneFor(id).some((done) => one.test(done)))
    await until(async () => missing().length === 0).catch(() => {})
    t.strictSame(missing(), [], `${id}: ${[...new Set(doneFor(id))].join(', ')}`)
  }
  const asking = (id: string, token?: string) => ({
    'x-request-id': id,
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  })
  const send = (id: string, bytes: number, token?: string) =>
    dataOf(
      fetch(`${upload.addresses.upload}/uploadfile`, {
        method: 'POST',
        body: formOf(bytes),
        headers: asking(id, token),
      }),
    )

  const file = await send('large-upload', 600_000)
  const token = String(file.guestToken)
  await seen(
    'large-upload',
    /^upload: \/uploadfile$/,
    /^host: addFile$/,
    /^node: .*Begin$/,
    /^node: PUT \/stages/,
    /^node: .*Commit$/,
  )
  const small = await send('small-upload', 10, token)
  await seen('small-upload', /^upload: /, /^host: /, /^node: PUT \/blobs/)

  const linkOf = async (listing: string, { id, parentFolder }: Record<string, unknown>) => {
    const url = `${api.addresses.api}/contents/${parentFolder}`
    const { children } = await dataOf(fetch(url, { headers: asking(listing, token) }))
    return String((children as Record<string, Record<string, string>>)[String(id)]?.link)
  }
  const link = await linkOf('listing', file)
  await seen('listing', /^api: \/contents/, /^host: readContent$/)

  await (await fetch(link, { headers: asking('download', token) })).arrayBuffer()
  await seen('download', /^upload: \/download/, /^host: openFile$/, /^node: GET \/blobs/)

  const smallLink = await linkOf('small-listing', small)
  for (const id of ['small-download', 'small-again']) {
    await (await fetch(smallLink, { headers: asking(id, token) })).arrayBuffer()
    await seen(id, /^upload: \/download/, /^node: GET \/blobs/)
  }

  t.notOk(
    lines.some(({ fields }) => String(fields.call).endsWith('/Pull') && fields.requestId !== undefined),
    'what nodes do by themselves is not logged with a request',
  )
})

t.test('no log has the token, password or address of a client', async (t) => {
  const { lines, api, upload } = await loggingCluster(t)
  const file = await dataOf(
    fetch(`${upload.addresses.upload}/uploadfile`, { method: 'POST', body: formOf(10) }),
  )
  const token = String(file.guestToken)
  const password = 'a-Pass-of-this-test'
  const address = 'someone@mail.example.org'
  const inUrl = encodeURIComponent(address)
  const basic = Buffer.from(`someone:${password}`).toString('base64')
  const secrets = { token, password, address, inUrl, basic }
  const json = { 'content-type': 'application/json' }

  const hosts = [api.addresses.api, upload.addresses.upload, upload.addresses.download]
  const paths = [`contents/${file.parentFolder}`, 'accounts', 'uploadfile', `download/web/${file.id}/a.txt`]
  const urls = hosts.flatMap((host) => [
    ...paths.map((path) => `${host}/${path}?token=${token}&password=${password}&email=${inUrl}`),
    ...[token, address, inUrl].flatMap((secret) => [
      `${host}/contents/${secret}`,
      `${host}/accounts/${secret}/resettoken`,
      `${host}/${secret}`,
      `${host}/d/${secret};x`,
    ]),
  ])
  const headers: Record<string, string>[] = [
    { authorization: `Bearer ${token}` },
    { authorization: `Basic ${basic}` },
    { cookie: `accountToken=${token}; password=${password}` },
    { 'x-request-id': token },
    { 'x-request-id': address },
    { 'idempotency-key': `${token} ${address}`, referer: `http://x/?token=${token}`, 'user-agent': address },
  ]
  const bodies: [method: string, body: string | undefined, type: Record<string, string>][] = [
    ['GET', undefined, {}],
    ['POST', JSON.stringify({ token, password, email: address }), json],
    ['PUT', JSON.stringify({ token, attribute: 'password', attributeValue: password }), json],
    ['DELETE', `{"token":"${token}","password":"${password}","email":"${address}`, json],
    ['PUT', `token=${token}&password=${password}&email=${inUrl}`, {}],
  ]
  let asked = 0
  for (const url of urls)
    for (const [method, body, type] of bodies) {
      const header = headers[asked++ % headers.length]
      const answer = await fetch(url, { method, headers: { ...header, ...type }, ...(body && { body }) })
      await answer.arrayBuffer()
    }
  await fetch(`${api.addresses.admin}/admin/accounts/find?email=${inUrl}&token=${token}`)
  await until(async () => {
    const answered = lines.filter(({ fields }) => fields.msg === 'answered').length
    return answered >= asked
  })
  for (const [name, secret] of Object.entries(secrets))
    t.strictSame(
      lines.filter(({ text }) => text.includes(secret)).map(({ text }) => text),
      [],
      `${name} in none of ${lines.length} lines`,
    )
  t.ok(
    lines.some(({ text }) => text.includes('/contents/[secret]')),
    'the rest of a line stays',
  )
  t.ok(lines.some(({ text }) => text.includes('"requestId":"[address]"')))
})
