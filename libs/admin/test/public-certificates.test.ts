/** The certificates that users are shown, read by a real handshake. */
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createServer, type Server } from 'node:tls'
import { Authority } from '@holdfast/trust'
import { Registry } from 'prom-client'
import t from 'tap'
import { PublicCertificates, publicCertificateMetrics } from '../src/metrics/public-certificates.ts'

t.test('the end of a shown certificate is a metric, also while its host does not answer', async (t) => {
  const directory = t.testdir()
  const authority = await Authority.create(directory, { name: 'test', days: 300 })
  await authority.issue({ host: 'node', names: ['localhost'] }, { days: 3 })
  const read = (name: string) => readFileSync(join(directory, 'node', name))
  const { server, port } = await listening('127.0.0.1', { cert: read('node.pem'), key: read('node.key') })
  const faults: string[] = []
  const certificates = new PublicCertificates({
    hosts: [{ host: 'localhost', port }],
    onFault: (_, { publicHost, address }) => {
      if (address === '127.0.0.1') faults.push(publicHost)
    },
  })
  t.teardown(() => certificates.close())
  await certificates.read()
  t.strictSame([await daysOf(certificates), faults], [3, []])
  await authority.renew({ withinDays: 5, days: 20 })
  server.setSecureContext({ cert: read('node.pem'), key: read('node.key') })
  await certificates.read()
  t.equal(await daysOf(certificates), 20, 'a renewed one')
  await new Promise((resolve) => server.close(resolve))
  await certificates.read()
  t.strictSame([await daysOf(certificates), faults], [20, [`localhost:${port}`]])
})

t.test(
  'the earliest end counts of all addresses of a host, also beside one that does not answer',
  async (t) => {
    const directory = t.testdir()
    const authority = await Authority.create(directory, { name: 'test', days: 300 })
    const shown = async (host: string, days: number) => {
      await authority.issue({ host, names: ['localhost'] }, { days })
      const read = (name: string) => readFileSync(join(directory, host, name))
      return { cert: read('node.pem'), key: read('node.key') }
    }
    const { server, port } = await listening('127.0.0.1', await shown('one', 20))
    const other = await listening('::1', await shown('two', 3), port)
    t.teardown(() => server.close())
    let known = ['127.0.0.1', '::1', '127.0.0.2']
    const faults: string[] = []
    const certificates = new PublicCertificates({
      hosts: [{ host: 'localhost', port }],
      onFault: (_, { address }) => faults.push(String(address)),
      addressesOf: async () => known,
    })
    await certificates.read()
    t.strictSame([await daysOf(certificates), faults.splice(0)], [3, ['127.0.0.2']])
    await new Promise((resolve) => other.server.close(resolve))
    await certificates.read()
    t.strictSame(
      [await daysOf(certificates), faults.splice(0)],
      [3, ['::1', '127.0.0.2']],
      'it still expires',
    )
    known = ['127.0.0.1']
    await certificates.read()
    t.strictSame([await daysOf(certificates), faults], [20, []], 'an address that the host no longer has')
    known = Array.from({ length: 33 }, () => '127.0.0.1')
    await certificates.read()
    t.strictSame([await daysOf(certificates), faults], [20, ['undefined']], 'more than are read')
  },
)

async function listening(address: string, shown: { cert: Buffer; key: Buffer }, port = 0) {
  const server: Server = createServer(shown, (socket) => socket.end())
  await new Promise<void>((resolve) => server.listen(port, address, resolve))
  return { server, port: (server.address() as AddressInfo).port }
}

/** Of the only host, as its metric says. */
async function daysOf(certificates: PublicCertificates): Promise<number> {
  const registry = new Registry()
  publicCertificateMetrics(registry, certificates)
  const [, seconds] = /\{host="localhost:\d+"\} (.*)$/m.exec(await registry.metrics()) ?? []
  return Math.round((Number(seconds) - Date.now() / 1000) / 86_400)
}
