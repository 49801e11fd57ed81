/** The certificates that users and clients are shown, read by a real handshake. */
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer as createPlainServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createServer, type Server, type TlsOptions } from 'node:tls'
import { Authority } from '@holdfast/trust'
import { Registry } from 'prom-client'
import t, { type Test } from 'tap'
import { startNats } from '../../../infra/servers/nats.ts'
import { freePort } from '../../../infra/servers/ports.ts'
import {
  openShownCertificates,
  ShownCertificates,
  shownCertificateMetrics,
  type WatchedServer,
  watchedHosts,
  watchedServers,
} from '../src/metrics/shown-certificates.ts'

t.test('the end of a shown certificate is a metric, also while its host does not answer', async (t) => {
  const { authority, files } = await authorityOf(t.testdir())
  const { server, port } = await listening('127.0.0.1', await files('node', 3))
  const faults: string[] = []
  const certificates = new ShownCertificates({
    servers: watchedHosts([{ host: 'localhost', port }]),
    onFault: (_, { label, address }) => {
      if (address === '127.0.0.1') faults.push(label)
    },
  })
  t.teardown(() => certificates.close())
  await certificates.read()
  t.strictSame([await daysOf({ hosts: certificates }), faults], [3, []])
  await authority.renew({ withinDays: 5, days: 20 })
  server.setSecureContext(await files('node'))
  await certificates.read()
  t.equal(await daysOf({ hosts: certificates }), 20, 'a renewed one')
  await new Promise((resolve) => server.close(resolve))
  await certificates.read()
  t.strictSame([await daysOf({ hosts: certificates }), faults], [20, [`localhost:${port}`]])
})

t.test(
  'the earliest end counts of all addresses of a host, also beside one that does not answer',
  async (t) => {
    const { files } = await authorityOf(t.testdir())
    const { server, port } = await listening('127.0.0.1', await files('one', 20))
    const other = await listening('::1', await files('two', 3), port)
    t.teardown(() => server.close())
    let known = ['127.0.0.1', '::1', '127.0.0.2']
    const faults: string[] = []
    const certificates = new ShownCertificates({
      servers: watchedHosts([{ host: 'localhost', port }]),
      onFault: (_, { address }) => faults.push(String(address)),
      addressesOf: async () => known,
    })
    const days = () => daysOf({ hosts: certificates })
    await certificates.read()
    t.strictSame([await days(), faults.splice(0)], [3, ['127.0.0.2']])
    await new Promise((resolve) => other.server.close(resolve))
    await certificates.read()
    t.strictSame([await days(), faults.splice(0).sort()], [3, ['127.0.0.2', '::1']], 'it still expires')
    known = ['127.0.0.1']
    await certificates.read()
    t.strictSame([await days(), faults], [20, []], 'an address that the host no longer has')
    known = Array.from({ length: 33 }, () => '127.0.0.1')
    await certificates.read()
    t.strictSame([await days(), faults], [20, ['undefined']], 'more than are read')
  },
)

t.test('a nats-server shows the certificate that it has loaded, not the one of its files', async (t) => {
  const { authority, folder, files } = await authorityOf(t.testdir())
  const own = await files('node', 3)
  const [ca, cert, key] = ['ca.pem', 'node.pem', 'node.key'].map((name) => join(folder, 'node', name))
  const port = await freePort()
  const tls = { ca, cert, key } as Record<'ca' | 'cert' | 'key', string>
  const nats = await startNats({ directory: join(folder, 'nats'), port, tls })
  t.teardown(() => nats.stop())
  const given = servers({ scheme: 'nats', host: '127.0.0.1', port })
  const { certificates, faults } = watched(t, { servers: given, own: () => own })
  await certificates.read()
  t.strictSame([await daysOf({ servers: certificates }), faults], [3, []])
  await authority.renew({ withinDays: 5, days: 20 })
  await certificates.read()
  t.equal(await daysOf({ servers: certificates }), 3, 'its files are renewed')
  nats.signal('SIGHUP')
  while ((await daysOf({ servers: certificates })) === 3) await certificates.read()
  t.strictSame([await daysOf({ servers: certificates }), faults], [20, []], 'it has read them')
  const refusals = () => readFileSync(join(folder, 'nats/nats.log'), 'utf8').match(/provide a certificate/g)
  t.equal(refusals(), null, 'reading leaves no error in its log')

  const stranger = watched(t, { servers: given })
  await stranger.certificates.read()
  t.strictSame([await daysOf({ servers: stranger.certificates }), stranger.faults], [20, []])
  await nats.stop()
  t.ok(refusals(), 'it refused a client without a certificate')
  await certificates.read()
  t.strictSame([await daysOf({ servers: certificates }), faults.length], [20, 1], 'it has ended')
})

t.test('a server shows its certificate also to a client that it refuses', async (t) => {
  const directory = t.testdir()
  const { files, ca } = await authorityOf(join(directory, 'one'))
  const other = await authorityOf(join(directory, 'other'))
  const stranger = await other.files('node', 3)
  const shown = await files('node', 3)
  const asked: string[] = []
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const)
    for (const [scheme, own, outcome] of [
      ['tls', shown, /^accepted/],
      ['tls', stranger, /^(?!accepted)/],
      ['tls', undefined, /^(?!accepted)/],
      // It would be accepted, if it were sent.
      ['cassandra', shown, /ECONNRESET/],
    ] as const) {
      const name = `${version}, ${scheme}, ${outcome}`
      const asks = { ca, requestCert: true, minVersion: version, maxVersion: version }
      const { server, port } = await listening('::1', {
        ...{ ...shown, ...asks },
        SNICallback: (servername, done) => {
          asked.push(servername)
          done(null)
        },
      })
      const seen = new Promise((resolve) => {
        server.once('secureConnection', () => resolve('accepted'))
        server.once('tlsClientError', (error: Error & { code?: string }) => resolve(error.code ?? 'refused'))
      })
      const { certificates, faults } = watched(t, {
        servers: servers({ scheme, host: '::1', port }),
        own: () => own,
      })
      await certificates.read()
      t.strictSame([await daysOf({ servers: certificates }), faults], [3, []], name)
      t.match(await seen, outcome, name)
      await new Promise((resolve) => server.close(resolve))
    }
  t.strictSame(asked, [], 'an address is not sent as a name')
})

t.test('a server that sends no INFO line of NATS costs a fault, limited memory and time', async (t) => {
  const { files } = await authorityOf(t.testdir())
  const tls = await listening('127.0.0.1', await files('node', 3))
  t.teardown(() => tls.server.close())
  const speaking = async (speak: (socket: Socket) => void) => {
    const server = createPlainServer((socket) => speak(socket.on('error', () => {})))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.close())
    return (server.address() as AddressInfo).port
  }
  const endless = Promise.withResolvers<number>()
  const closed = Promise.withResolvers<void>()
  const cases: [port: number, fault: RegExp][] = [
    [
      await speaking((socket) => {
        const more = () => {
          while (!socket.destroyed && socket.write(Buffer.alloc(16_384, 'x')));
        }
        socket.on('drain', more).on('close', () => endless.resolve(socket.bytesWritten))
        more()
      }),
      /no line ends within 65536 bytes/,
    ],
    [await speaking((socket) => socket.once('close', closed.resolve).resume()), /no handshake in time/],
    [await speaking((socket) => socket.write('INFO {}\r\n')), /no handshake in time/],
    [await speaking((socket) => socket.end('INFO {')), /closed before its first line ended/],
    [await speaking((socket) => socket.write('SSH-2.0-x\r\n')), /not the INFO of NATS/],
    [await speaking((socket) => socket.end('INFO {}\r\n')), /disconnected|ECONNRESET|EPIPE|closed/],
    [tls.port, /no handshake in time/],
    [await freePort(), /ECONNREFUSED/],
  ]
  for (const [port, fault] of cases) {
    const { certificates, faults } = watched(t, {
      servers: servers({ scheme: 'nats', host: '127.0.0.1', port }),
      timeoutMs: 300,
    })
    await certificates.read()
    t.equal(faults.length, 1)
    t.match(faults[0], fault)
    t.equal(certificates.expiresMs.size, 0)
  }
  const plain = watched(t, {
    servers: servers({
      ...{ scheme: 'cassandra', host: '127.0.0.1' },
      port: await speaking((socket) => socket.end('none of TLS, which begins otherwise\n')),
    }),
  })
  await plain.certificates.read()
  t.match(plain.faults, [/wrong version number/], 'the reason, not the end of the connection')
  const silent = watched(t, {
    servers: servers({ scheme: 'tls', host: '127.0.0.1', port: await speaking((socket) => socket.resume()) }),
    timeoutMs: 300,
  })
  await silent.certificates.read()
  t.match(silent.faults, [/no handshake in time/], 'a server that does not answer in TLS')
  t.ok((await endless.promise) < 16 * 2 ** 20, 'the rest is not read')
  await closed.promise
})

t.test('a process shows its certificate to servers, and none to public hosts', async (t) => {
  const { files } = await authorityOf(t.testdir())
  const own = await files('node', 3)
  const asking = { ...own, requestCert: true, rejectUnauthorized: false }
  const [host, server] = [await listening('127.0.0.1', asking), await listening('127.0.0.1', asking)]
  const shownTo = ({ server }: { server: Server }) => {
    t.teardown(() => server.close())
    return new Promise((resolve) =>
      server.once('secureConnection', (socket) => resolve(socket.getPeerCertificate().subject?.CN)),
    )
  }
  const shown = Promise.all([shownTo(host), shownTo(server)])
  const gone = await freePort()
  const warned = Promise.withResolvers<object>()
  await using opened = new AsyncDisposableStack()
  openShownCertificates({
    config: {
      certificateHosts: [{ host: '127.0.0.1', port: host.port }],
      certificateServers: [server.port, gone].map((port) => ({ scheme: 'tls', host: '127.0.0.1', port })),
    },
    own: () => own,
    log: { warn: (fields: object) => warned.resolve(fields) },
    metrics: new Registry(),
    opened,
  })
  t.strictSame(await shown, [undefined, 'node'])
  t.match(await warned.promise, {
    err: { code: 'ECONNREFUSED' },
    server: `tls://127.0.0.1:${gone}`,
    address: '127.0.0.1',
  })
})

t.test('the metric names a server as the setting does', async (t) => {
  const given = servers(
    { scheme: 'cassandra', host: 'fd00::1', port: 9042 },
    { scheme: 'nats', host: '10.0.0.1', port: 4222 },
    { scheme: 'tls', host: 'files.internal', port: 443 },
  )
  t.strictSame(
    [...given.keys()],
    ['cassandra://[fd00::1]:9042', 'nats://10.0.0.1:4222', 'tls://files.internal:443'],
  )
})

t.test('few servers of a long list are read at once, and all of them are read', async (t) => {
  const given = Array.from({ length: 100 }, (_, at) => ({ scheme: 'tls' as const, host: `h${at}`, port: 1 }))
  const asked = new Set<string>()
  let [now, most] = [0, 0]
  const { certificates } = watched(t, {
    servers: watchedServers(given),
    addressesOf: async (host) => {
      asked.add(host)
      most = Math.max(most, ++now)
      await new Promise(setImmediate)
      now--
      return []
    },
  })
  await certificates.read()
  t.strictSame([asked.size, most], [100, 64])
})

const servers = (...all: WatchedServer[]) => watchedServers(all)

/** Its faults are texts. */
function watched(t: Test, options: Omit<ConstructorParameters<typeof ShownCertificates>[0], 'onFault'>) {
  const faults: string[] = []
  const certificates = new ShownCertificates({ ...options, onFault: (error) => faults.push(String(error)) })
  t.teardown(() => certificates.close())
  return { certificates, faults }
}

/** An authority, and the files of its hosts: of a new one when the days are given. */
async function authorityOf(folder: string) {
  const authority = await Authority.create(folder, { name: 'test', days: 300 })
  const files = async (host: string, days?: number) => {
    if (days !== undefined) await authority.issue({ host, names: ['localhost', '127.0.0.1'] }, { days })
    const read = (name: string) => readFileSync(join(folder, host, name), 'utf8')
    return { cert: read('node.pem'), key: read('node.key') }
  }
  return { authority, folder, files, ca: readFileSync(join(folder, 'ca.pem'), 'utf8') }
}

async function listening(address: string, shown: TlsOptions, port = 0) {
  const server: Server = createServer(shown, (socket) => socket.end())
  await new Promise<void>((resolve) => server.listen(port, address, resolve))
  return { server, port: (server.address() as AddressInfo).port }
}

/** Of the only host or server, as its metric says. */
async function daysOf(of: Partial<Record<'hosts' | 'servers', ShownCertificates>>): Promise<number> {
  const registry = new Registry()
  const none = { expiresMs: new Map<string, number>() }
  shownCertificateMetrics(registry, { hosts: none, servers: none, ...of })
  const [, seconds] =
    /_seconds\{(?:host="localhost|server="(?:nats|tls|cassandra):\/\/\S+):\d+"\} (.*)$/m.exec(
      await registry.metrics(),
    ) ?? []
  return Math.round((Number(seconds) - Date.now() / 1000) / 86_400)
}
