/** An authority, what it issues, and what a process does when files change. Real `openssl`. */

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { chmod, cp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect, createServer, type TLSSocket } from 'node:tls'
import t from 'tap'
import {
  Authority,
  isOfHost,
  type Kind,
  TlsFiles,
  type TlsFilesOptions,
  type TlsFilesTuning,
} from '../src/index.ts'
import { openTlsFiles } from '../src/testing.ts'

const read = (path: string) => readFileSync(path, 'utf8')
const dayMs = 86_400_000

async function madeIn(directory: string, hosts: readonly string[] = ['one', 'two']): Promise<Authority> {
  const authority = await Authority.create(directory, { name: 'test', days: 30 })
  for (const host of hosts) await authority.issue({ host, names: ['127.0.0.1'] }, { days: 10 })
  return authority
}

function filesOf(
  directory: string,
  host: string,
  { onReload, onFault, reloadMs = 3_600_000 }: Partial<TlsFilesOptions> & TlsFilesTuning = {},
) {
  const at = (name: string) => join(directory, host, name)
  return TlsFiles.open(
    { ca: at('ca.pem'), own: { cert: at('node.pem'), key: at('node.key') } },
    { read, onReload, onFault },
    { reloadMs },
  )
}

t.test('an authority issues, lists and renews; keys are for their owner alone', async (t) => {
  const directory = t.testdir()
  const authority = await madeIn(directory)
  await t.rejects(Authority.create(directory, { name: 'test', days: 30 }), { code: 'AUTHORITY' })
  for (const path of ['ca.key', 'one/node.key', 'one/cassandra.pem'])
    t.equal((await stat(join(directory, path))).mode & 0o777, 0o600, path)
  t.match(await authority.ofAuthority(), { name: 'test', isAuthority: true })

  const [one, two] = await authority.issued()
  t.match([one?.host, two?.host], ['one', 'two'])
  t.same(one?.names, ['DNS:one', 'IP Address:127.0.0.1'])
  t.equal(one?.isAuthority, false)
  t.ok(Math.abs((one?.expiresMs ?? 0) - Date.now() - 10 * dayMs) < dayMs)

  t.same(await authority.renew({ withinDays: 5, days: 20 }), [], 'none ends within five days')
  await authority.issue({ host: 'two', names: [] }, { days: 3 })
  const before = read(join(directory, 'two/node.key'))
  t.match(await (await Authority.open(directory)).renew({ withinDays: 5, days: 20 }), [
    { host: 'two', names: ['DNS:two'] },
  ])
  t.not(read(join(directory, 'two/node.key')), before, 'with a new key')
  t.equal(read(join(directory, 'two/cassandra.pem')).includes(read(join(directory, 'two/node.pem'))), true)
})

t.test('malformed names, and directories without an authority, are refused', async (t) => {
  const directory = t.testdir()
  await t.rejects(Authority.open(directory), { code: 'AUTHORITY', message: /ca\.pem is missing/ })
  const authority = await madeIn(directory, [])
  for (const host of ['', '../one', 'one/two', 'Upper', '-a'])
    await t.rejects(authority.issue({ host, names: [] }, { days: 1 }), { code: 'AUTHORITY' })
  await t.rejects(authority.issue({ host: 'one', names: ['a,DNS:b'] }, { days: 1 }), { code: 'AUTHORITY' })
})

t.test('a key file that is empty or cannot be read does not count as missing', async (t) => {
  const directory = t.testdir({ unreadable: { 'ca.key': {} }, empty: { 'ca.key': '' } })
  const make = (folder: string) => Authority.create(join(directory, folder), { name: 'again', days: 10 })
  await t.rejects(make('unreadable'), { code: 'EISDIR' })
  await t.rejects(make('empty'), { message: /has an authority already/ })
  t.equal((await stat(join(directory, 'empty', 'ca.key'))).size, 0)
})

t.test('files are used only as a matching set; files that do not match change nothing', async (t) => {
  const directory = t.testdir()
  const authority = await madeIn(directory)
  const faults: string[] = []
  let reloads = 0
  const files = filesOf(directory, 'one', {
    onFault: ({ message }) => faults.push(message),
    onReload: () => reloads++,
  })
  t.teardown(() => files.close())
  let heard = 0
  const ended = files.onChange(() => heard++)
  const first = files.secureContext
  t.equal(files.reload(), false, 'the same files')
  t.equal(files.secureContext, first)

  // Half of a replacement: the certificate without its key.
  await cp(join(directory, 'two/node.pem'), join(directory, 'one/node.pem'))
  t.equal(files.reload(), false)
  t.equal(files.reload(), false)
  t.match(faults, [/one\/node\.key cannot be used: it is not the key of .*one\/node\.pem/])
  t.equal(faults.length, 1, 'said once')
  t.equal(files.secureContext, first)

  await cp(join(directory, 'two/node.key'), join(directory, 'one/node.key'))
  t.equal(files.reload(), true)
  t.not(files.secureContext, first)
  t.equal(files.certificates.own?.name, 'two')
  t.same([reloads, heard], [1, 1])
  await writeFile(join(directory, 'one/ca.pem'), 'nothing')
  t.equal(files.reload(), false)
  t.equal(files.certificates.ca.name, 'test')
  ended()
  await authority.issue({ host: 'one', names: [] }, { days: 1 })
  t.equal(files.reload(), true)
  t.same([reloads, heard], [2, 1])
  t.throws(() => openTlsFiles({ ca: join(directory, 'none'), own: undefined }), /none cannot be read/)
})

t.test('new files are noticed by themselves', async (t) => {
  const directory = t.testdir()
  const authority = await madeIn(directory, ['one'])
  const reloaded = Promise.withResolvers<void>()
  const files = filesOf(directory, 'one', { reloadMs: 10, onReload: () => reloaded.resolve() })
  t.teardown(() => files.close())
  // The timer alone keeps no process alive; this one waits.
  const alive = setInterval(() => {}, 1_000)
  await authority.issue({ host: 'one', names: ['127.0.0.1'] }, { days: 5 })
  await reloaded.promise
  clearInterval(alive)
  t.ok((files.certificates.own?.expiresMs ?? 0) < Date.now() + 6 * dayMs)
})

t.test('a handshake needs the authority, the name and a time that is not over', async (t) => {
  const directory = t.testdir()
  const [right, other] = [join(directory, 'right'), join(directory, 'other')]
  const authority = await madeIn(right, ['one', 'two'])
  await authority.issue({ host: 'over', names: ['127.0.0.1'] }, { days: -1 })
  await madeIn(other, ['one'])
  const context = (place: string, host: string) => {
    const files = filesOf(place, host)
    files.close()
    return files.secureContext
  }
  const shaken = async (
    server: ReturnType<typeof context>,
    client: ReturnType<typeof context> | undefined,
    host = '127.0.0.1',
  ) => {
    const refused = Promise.withResolvers<string>()
    const listener = createServer({ requestCert: true, rejectUnauthorized: true, minVersion: 'TLSv1.3' })
    listener.addContext('*', server)
    listener.on('secureConnection', (socket: TLSSocket) => socket.end('welcome'))
    listener.listen(0, '127.0.0.1')
    await once(listener, 'listening')
    const socket = connect({
      port: (listener.address() as AddressInfo).port,
      host: '127.0.0.1',
      servername: 'any',
      ...(client === undefined ? { ca: read(join(right, 'ca.pem')) } : { secureContext: client }),
      checkServerIdentity: isOfHost(host),
    })
    socket.on('data', (bytes) => refused.resolve(String(bytes)))
    socket.on('error', (error: NodeJS.ErrnoException) => refused.resolve(error.code ?? error.message))
    socket.on('close', () => refused.resolve('closed'))
    const answer = await refused.promise
    socket.destroy()
    listener.close()
    return answer
  }
  const one = context(right, 'one')
  t.equal(await shaken(one, context(right, 'two')), 'welcome')
  t.equal(await shaken(one, context(right, 'two'), '127.0.0.2'), 'ERR_TLS_CERT_ALTNAME_INVALID')
  t.equal(await shaken(context(right, 'over'), one), 'CERT_HAS_EXPIRED')
  t.equal(await shaken(context(other, 'one'), one), 'UNABLE_TO_VERIFY_LEAF_SIGNATURE')
  t.not(await shaken(one, context(right, 'over')), 'welcome', 'an expired client')
  t.not(await shaken(one, context(other, 'one')), 'welcome', 'a client of another authority')
  t.not(await shaken(one, undefined), 'welcome', 'a client without a certificate')
})

t.test('hosts trust the authority that is replaced, until its certificate is taken away', async (t) => {
  const directory = t.testdir()
  const internode = { days: 10, kind: 'internode' satisfies Kind } as const
  const before = await madeIn(directory, ['one', 'two'])
  await before.issue({ host: 'one', names: [] }, internode)
  await cp(join(directory, 'two'), join(directory, 'of-before'), { recursive: true })
  for (const name of ['ca', 'cassandra-ca'])
    for (const end of ['pem', 'key'])
      await rename(join(directory, `${name}.${end}`), join(directory, `earlier-${name}.${end}`))
  const authority = await madeIn(directory, ['one'])
  await authority.issue({ host: 'one', names: [] }, internode)
  const texts = (...paths: string[]) => paths.map((path) => read(join(directory, path))).join('')
  for (const name of ['ca.pem', 'cassandra-ca.pem'])
    t.equal(texts(`one/${name}`), texts(name, `earlier-${name}`))

  const server = createServer({
    ...{ cert: texts('one/node.pem'), key: texts('one/node.key'), ca: texts('one/ca.pem') },
    ...{ requestCert: true, rejectUnauthorized: true },
  })
  server.on('secureConnection', (socket: TLSSocket) => socket.end('welcome'))
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  for (const host of ['of-before', 'one']) {
    const own = { cert: texts(`${host}/node.pem`), key: texts(`${host}/node.key`) }
    const { port } = server.address() as AddressInfo
    const socket = connect({ port, host: '127.0.0.1', ca: texts('one/ca.pem'), ...own })
    const [answer] = await once(socket, 'data')
    t.equal(String(answer), 'welcome', `a client with the certificate ${host}`)
  }

  for (const name of ['earlier-ca.pem', 'earlier-cassandra-ca.pem']) await rm(join(directory, name))
  await authority.issue({ host: 'one', names: [] }, { days: 10 })
  t.equal(texts('one/ca.pem'), texts('ca.pem'))
})

t.test('between nodes of Cassandra only their own certificates count', async (t) => {
  const directory = t.testdir()
  const authority = await madeIn(directory)
  await authority.issue({ host: 'one', names: [] }, { days: 10, kind: 'proxy' })
  for (const host of ['one', 'two'])
    await authority.issue({ host, names: [] }, { days: 10, kind: 'internode' })
  t.equal((await stat(join(directory, 'one/internode.pem'))).mode & 0o777, 0o600)
  const at = (path: string) => read(join(directory, path))
  const both = (path: string) => ({ cert: at(path), key: at(path.replace(/(node|proxy)\.pem$/, '$1.key')) })
  const own = (path: string) => ({ cert: at(path), key: at(path) })

  const server = createServer({
    ...own('one/internode.pem'),
    ca: at('one/cassandra-ca.pem'),
    requestCert: true,
    rejectUnauthorized: true,
  })
  server.on('secureConnection', (socket: TLSSocket) => socket.end('welcome'))
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const answerTo = (shown: { cert: string; key: string }) =>
    new Promise<string>((resolve) => {
      const trusted = { ca: at('two/cassandra-ca.pem'), servername: 'one' }
      const socket = connect({ port, host: '127.0.0.1', ...trusted, ...shown })
      socket.on('data', (bytes) => resolve(String(bytes)))
      socket.on('error', () => resolve('refused'))
      socket.on('close', () => resolve('refused'))
    })
  t.equal(await answerTo(own('two/internode.pem')), 'welcome')
  for (const path of ['two/node.pem', 'one/proxy.pem'])
    t.equal(await answerTo(both(path)), 'refused', `a peer with ${path}`)
  t.equal(await answerTo(own('two/cassandra.pem')), 'refused', 'what Cassandra shows its clients')

  const renewed = await authority.renew({ withinDays: 20, days: 30 })
  t.equal(renewed.filter(({ kind }) => kind === 'internode').length, 2)
  t.equal(await answerTo(own('two/internode.pem')), 'welcome', 'renewed by the same authority')
})

t.test('a directory of an earlier release gets the second authority once', async (t) => {
  const directory = t.testdir()
  const authority = await madeIn(directory, ['one'])
  for (const end of ['pem', 'key']) await rm(join(directory, `cassandra-ca.${end}`))
  t.equal(await authority.ofSecond(), undefined)
  const internode = { days: 10, kind: 'internode' satisfies Kind } as const
  await authority.issue({ host: 'one', names: [] }, internode)
  const made = read(join(directory, 'cassandra-ca.pem'))
  t.match(await authority.ofSecond(), { name: 'test Cassandra', isAuthority: true })
  await authority.issue({ host: 'two', names: [] }, internode)
  t.equal(read(join(directory, 'two/cassandra-ca.pem')), made)
  // Its certificates are in use: another one would part the nodes from each other.
  for (const end of ['key', 'pem']) {
    await rm(join(directory, `cassandra-ca.${end}`))
    await t.rejects(authority.issue({ host: 'two', names: [] }, internode), {
      code: 'AUTHORITY',
      message: /put its copy back/,
    })
  }
})

t.test('a message names the program that is missing', async (t) => {
  const directory = t.testdir({ bin: {} })
  const { PATH } = process.env
  t.teardown(() => {
    process.env.PATH = PATH
  })
  process.env.PATH = join(directory, 'bin')
  await chmod(directory, 0o700)
  await t.rejects(Authority.create(join(directory, 'ca'), { name: 'a', days: 1 }), {
    message: 'the program openssl is missing: install its package',
  })
  await t.rejects(readFile(join(directory, 'ca/ca.key')))
})
