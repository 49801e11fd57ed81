/** Hosts that ask for TLS, most for a proxy's certificate too. `Authority` makes certificates. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import https from 'node:https'
import { connect as connectPlain, type Socket } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import { Authority, clusterNames, type TlsFiles } from '@holdfast/trust'
import { openTlsFiles } from '@holdfast/trust/testing'
import t, { type Test } from 'tap'
import { until } from '../../../test/support/until.ts'
import { defaultIdle, ok } from '../src/index.ts'
import { type DialledHost, evicted, get, listening, onLinux, open, refused } from './dialled-host.ts'

const read = (path: string) => readFileSync(path, 'utf8')
const keptOpen = { keepAlive: true, maxSockets: 4 }

interface Proxied {
  held: DialledHost
  port: number
  files: TlsFiles
  /** New certificates of the host and its proxy. */
  renew(): Promise<void>
  /** What a client with the files of this folder shows and trusts. */
  shown(who?: string): { ca: string; cert: string; key: string; servername: string }
  agent(who?: string, more?: https.AgentOptions): https.Agent
}

/** Folders of certificates: a proxy, a process without that name, a proxy of another authority. */
async function certificatesIn(folder: string): Promise<Authority> {
  const authority = await Authority.create(folder, { name: 'test', days: 30 })
  await renewIn(authority)
  await authority.issue({ host: 'node', names: ['127.0.0.1'] }, { days: 10 })
  const other = await Authority.create(join(folder, 'other'), { name: 'other', days: 30 })
  await other.issue({ host: 'proxy', names: [clusterNames.proxy] }, { days: 10 })
  await cp(join(folder, 'other/proxy'), join(folder, 'stranger'), { recursive: true })
  return authority
}

async function renewIn(authority: Authority): Promise<void> {
  await authority.issue({ host: 'frontend', names: [clusterNames.frontend] }, { days: 10 })
  await authority.issue({ host: 'proxy', names: [clusterNames.proxy] }, { days: 10 })
}

async function secured(
  t: Test,
  {
    plainToo = false,
    asksPeers = true,
    ...options
  }: Parameters<typeof listening>[1] & { plainToo?: boolean; asksPeers?: boolean } = {},
): Promise<Proxied> {
  const folder = t.testdir({})
  const authority = await certificatesIn(folder)
  const at = (name: string) => join(folder, 'frontend', name)
  const files = openTlsFiles({ ca: at('ca.pem'), own: { cert: at('node.pem'), key: at('node.key') } })
  t.teardown(() => files.close())
  const held = await listening(t, {
    trustProxy: ['127.0.0.1'],
    tls: { context: files, peerName: asksPeers ? clusterNames.proxy : undefined, plainToo },
    ...options,
  })
  const { port } = held.app.server.address() as { port: number }
  const seen = new Map<string, ReturnType<Proxied['shown']>>()
  const shown = (who = 'proxy') => {
    const files = seen.get(who) ?? {
      ca: read(at('ca.pem')),
      cert: read(join(folder, who, 'node.pem')),
      key: read(join(folder, who, 'node.key')),
      servername: clusterNames.frontend,
    }
    seen.set(who, files)
    return files
  }
  return {
    held,
    port,
    files,
    async renew() {
      await renewIn(authority)
      seen.clear()
    },
    shown,
    agent(who, more) {
      const agent = new https.Agent({ ...shown(who), ...more })
      t.teardown(() => agent.destroy())
      return agent
    },
  }
}

interface Answer {
  code: number
  address: string
}

async function ask(
  { port }: Proxied,
  agent: https.Agent,
  {
    path = '/now',
    from = '127.0.0.1',
    client = '198.51.100.1',
    body,
  }: { path?: string; from?: string; client?: string; body?: Buffer } = {},
): Promise<Answer> {
  const request = https.request({
    ...{ agent, port, path, host: '127.0.0.1', localAddress: from },
    ...(body === undefined ? {} : { method: 'POST' }),
    headers: { 'x-forwarded-for': client, ...(body && { 'content-type': 'x/late' }) },
  })
  request.end(body)
  const [response] = await once(request, 'response')
  const text = (await buffer(response)).toString()
  return { code: response.statusCode, address: JSON.parse(text).data?.address }
}

/** @returns what a plain client was answered until its connection ended */
async function plainAnswer(port: number, text: string): Promise<string> {
  const socket = connectPlain(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(text)
  let received = ''
  socket.on('data', (more) => {
    received += more
  })
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve))
  return received
}

t.test('a proxy is answered, on a connection that it keeps', async (t) => {
  const proxied = await secured(t)
  const agent = proxied.agent('proxy', keptOpen)
  for (const client of ['198.51.100.1', '198.51.100.2'])
    t.same(await ask(proxied, agent, { client }), { code: 200, address: client })
  t.equal(Object.values(agent.freeSockets).flat().length, 1, 'one connection carried both')
  t.equal(await open(proxied.held), 1)
})

t.test('a host that asks for no certificate answers each caller by TLS, and none without', async (t) => {
  const secret = await secured(t, { asksPeers: false })
  const { ca, servername } = secret.shown()
  const bare = new https.Agent({ ca, servername })
  t.equal((await ask(secret, bare)).code, 200, 'without one')
  t.equal((await ask(secret, secret.agent('stranger'))).code, 200, 'one of another authority')
  t.equal(await plainAnswer(secret.port, get('/now')), '')
  t.equal(await refused(secret.held, 'handshake'), 1)
  await secret.renew()
  secret.files.reload()
  t.equal((await ask(secret, new https.Agent({ ca, servername }))).code, 200, 'with the new one')
})

t.test('others are refused: without TLS, without a certificate, with one of no proxy', async (t) => {
  const proxied = await secured(t)
  t.equal(await plainAnswer(proxied.port, get('/now')), '')
  const { ca, servername } = proxied.shown()
  await t.rejects(ask(proxied, new https.Agent({ ca, servername })), 'none')
  await t.rejects(ask(proxied, proxied.agent('stranger')), 'of another authority')
  await t.rejects(ask(proxied, proxied.agent('node')), 'of the authority, for no proxy')
  t.equal(await refused(proxied.held, 'handshake'), 4)
  t.equal(proxied.held.begun(), 0)
  t.equal((await ask(proxied, proxied.agent())).code, 200)
})

t.test('while a cluster changes to TLS, requests without it are answered too', async (t) => {
  const proxied = await secured(t, { plainToo: true })
  t.match(await plainAnswer(proxied.port, get('/now', 'Connection: close\r\n')), /^HTTP\/1\.1 200/)
  t.equal((await ask(proxied, proxied.agent())).code, 200)
  await t.rejects(ask(proxied, proxied.agent('node')))
})

t.test('new certificates are used by new connections; no request fails meanwhile', async (t) => {
  const proxied = await secured(t)
  const serials = new Set<string>()
  let ended = false
  let answers = 0
  const load = Array.from({ length: 4 }, async (_, at) => {
    const kept = proxied.agent('proxy', keptOpen)
    while (!ended) {
      // Half of them connect for each request.
      const agent = at < 2 ? kept : proxied.agent('proxy', { maxCachedSessions: 0 })
      t.equal((await ask(proxied, agent)).code, 200)
      answers++
    }
  })
  const serialNow = async () => {
    const socket = connect({ port: proxied.port, host: '127.0.0.1', ...proxied.shown() })
    await once(socket, 'secureConnect')
    serials.add(socket.getPeerCertificate().serialNumber)
    socket.destroy()
  }
  for (let round = 0; round < 3; round++) {
    const before = answers
    await until(() => answers > before + 20)
    await serialNow()
    await proxied.renew()
    t.ok(proxied.files.reload())
  }
  await serialNow()
  ended = true
  await Promise.all(load)
  t.equal(serials.size, 4)
})

t.test('a proxy resumes its sessions until the certificates change', async (t) => {
  const proxied = await secured(t)
  let session: Buffer | undefined
  const resumes = async () => {
    const socket = connect({
      ...{ port: proxied.port, host: '127.0.0.1', session },
      ...proxied.shown(),
    } as ConnectionOptions)
    t.teardown(() => socket.destroy())
    socket.on('session', (made) => {
      session = made
    })
    await once(socket, 'secureConnect')
    socket.write(get('/now'))
    const [answer] = await once(socket, 'data')
    t.match(answer.toString(), /^HTTP\/1\.1 200/)
    return socket.isSessionReused()
  }
  t.same([await resumes(), await resumes()], [false, true])
  await proxied.renew()
  t.ok(proxied.files.reload())
  t.same([await resumes(), await resumes()], [false, true])
})

t.test('a body waits for its reader, and comes whole', async (t) => {
  let taken = 0
  let readOn = () => {}
  let source: IncomingMessage | undefined
  const proxied = await secured(t, {
    routes(app) {
      app.addContentTypeParser('x/late', (_request, _payload, done) => done(null))
      app.post('/late', async ({ raw }) => {
        source = raw
        await new Promise<void>((resolve) => {
          readOn = resolve
        })
        for await (const piece of raw) taken += piece.length
        return ok({})
      })
    },
  })
  const bytes = Buffer.alloc(32 * 1024 * 1024, 'holdfast')
  const asked = ask(proxied, proxied.agent(), { path: '/late', body: bytes })
  await until(() => (source?.socket.bytesRead ?? 0) > 0)
  const readBytes = () => source?.socket.bytesRead ?? 0
  let before = -1
  await until(() => {
    const isStill = before === readBytes()
    before = readBytes()
    return isStill
  })
  t.ok(readBytes() < 2 * 1024 * 1024, `${readBytes()} bytes were read for a reader that waits`)
  readOn()
  t.equal((await asked).code, 200)
  t.equal(taken, bytes.length)
})

t.test('maximums of networks and of clients hold', async (t) => {
  const proxied = await secured(t, { connections: { max: 100, perNetworkMax: 2 } })
  const { held } = proxied
  const strangers = await Promise.all([dialTls(t, proxied, '127.0.0.2'), dialTls(t, proxied, '127.0.0.2')])
  const path = '/held/one'
  for (const socket of strangers) socket.write(get(path))
  await until(() => held.handled.length === 2)
  await t.rejects(ask(proxied, proxied.agent(), { from: '127.0.0.2' }), 'a third of its network')
  t.equal(await refused(held, 'network'), 1)

  const agent = proxied.agent()
  const client = '198.51.100.9'
  const two = [ask(proxied, agent, { path, client }), ask(proxied, agent, { path, client })]
  await until(() => held.handled.length === 4)
  t.equal((await ask(proxied, agent, { client })).code, 429)
  t.equal((await ask(proxied, agent, { client: '198.51.100.10' })).code, 200)
  for (let at = 0; at < 4; at++) held.answer()
  t.same(
    (await Promise.all(two)).map(({ code }) => code),
    [200, 200],
  )
})

t.test('a full host closes a reader that takes nothing, below its TLS', onLinux, async (t) => {
  const proxied = await secured(t, { connections: { max: 2, perNetworkMax: 2 } })
  const readers = await Promise.all(['127.0.0.2', '127.0.0.3'].map((from) => dialTls(t, proxied, from)))
  for (const reader of readers) {
    reader.pause()
    reader.write(get('/large'))
  }
  await until(() => proxied.held.largeSent() === 2)
  await until(async () => {
    const answer = await ask(proxied, proxied.agent(), { from: '127.0.0.4' }).catch(() => undefined)
    return answer?.code === 200
  })
  t.equal(await evicted(proxied.held, 'stalled'), 1)
})

t.test('at its end a host answers what runs and closes what idles', async (t) => {
  const proxied = await secured(t, { drainMs: 10_000 })
  const { held } = proxied
  const agent = proxied.agent('proxy', keptOpen)
  const running = ask(proxied, agent, { path: '/held/last' })
  await until(() => held.handled.length === 1)
  const idle = await dialTls(t, proxied)
  idle.write(get('/now'))
  await once(idle, 'data')
  const halfway = await dialPlain(t, proxied, '127.0.0.1')
  halfway.write(helloBegin)
  const ended = Promise.all(
    [idle, halfway].map((socket) => new Promise((resolve) => socket.once('close', resolve))),
  )
  const closed = held.app.close()
  await ended
  held.answer()
  t.equal((await running).code, 200)
  await closed
  await until(async () => (await open(held)) === 0)
})

for (const [who, from] of [
  ['a stranger', '127.0.0.2'],
  ['the machine of a proxy', '127.0.0.1'],
] as const)
  t.test(`a thousand handshakes of ${who} that never end do not shut out a proxy`, async (t) => {
    const handshakeMs = 1_000
    const proxied = await secured(t, {
      connections: { max: 2_000, perNetworkMax: 2_000 },
      idle: { ...defaultIdle, handshakeMs, silentMs: 2_000 },
    })
    const { held } = proxied
    const hostile = await Promise.all(Array.from({ length: 1_000 }, () => dialPlain(t, proxied, from)))
    let at = 0
    // A third says nothing, a third begins, and a third sends byte by byte.
    for (const [place, socket] of hostile.entries()) if (place % 3 > 0) socket.write(helloBegin)
    const drip = setInterval(() => {
      at++
      for (const [place, socket] of hostile.entries()) if (place % 3 === 2) socket.write(Buffer.of(at))
    }, 100)
    t.teardown(() => clearInterval(drip))
    const agent = proxied.agent()
    for (let count = 0; count < 20; count++) t.equal((await ask(proxied, agent)).code, 200)
    t.ok(
      hostile.some((socket) => !socket.destroyed),
      'some were still there',
    )
    await until(() => hostile.every((socket) => socket.destroyed))
    await until(async () => (await open(held)) === 0)
    t.equal((await ask(proxied, agent)).code, 200)
    t.ok((await refused(held, 'handshake')) > 600)
  })

/** The record and the length of a ClientHello that does not come. */
const helloBegin = Buffer.from([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3])

async function dialTls(t: Test, { port, shown }: Proxied, from = '127.0.0.1'): Promise<TLSSocket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress: from, ...shown() } as ConnectionOptions)
  t.teardown(() => socket.destroy())
  socket.on('error', () => {})
  await once(socket, 'secureConnect')
  return socket
}

async function dialPlain(t: Test, { port }: Proxied, from: string): Promise<Socket> {
  const socket = connectPlain({ port, host: '127.0.0.1', localAddress: from })
  t.teardown(() => socket.destroy())
  // Its end is seen where it is read.
  socket.on('error', () => {}).resume()
  await once(socket, 'connect')
  return socket
}
