/** The certificates that users are shown, read by a real handshake. */
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import { Authority } from '@holdfast/trust'
import { Registry } from 'prom-client'
import t from 'tap'
import { PublicCertificates, publicCertificateMetrics } from '../src/metrics/public-certificates.ts'

t.test('the end of a shown certificate is a metric, also while its host does not answer', async (t) => {
  const directory = t.testdir()
  const authority = await Authority.create(directory, { name: 'test', days: 300 })
  await authority.issue({ host: 'node', names: ['localhost'] }, { days: 3 })
  const read = (name: string) => readFileSync(join(directory, 'node', name))
  const server = createServer({ cert: read('node.pem'), key: read('node.key') }, (socket) => socket.end())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const faults: string[] = []
  const certificates = new PublicCertificates({
    hosts: [{ host: 'localhost', port }],
    onFault: (_, host) => faults.push(host),
  })
  t.teardown(() => certificates.close())
  const registry = new Registry()
  publicCertificateMetrics(registry, certificates)
  const daysLeft = async () => {
    const [, seconds] = /\{host="localhost:\d+"\} (.*)$/m.exec(await registry.metrics()) ?? []
    return Math.round((Number(seconds) - Date.now() / 1000) / 86_400)
  }
  await certificates.read()
  t.strictSame([await daysLeft(), faults], [3, []])
  await authority.renew({ withinDays: 5, days: 20 })
  server.setSecureContext({ cert: read('node.pem'), key: read('node.key') })
  await certificates.read()
  t.equal(await daysLeft(), 20, 'a renewed one')
  await new Promise((resolve) => server.close(resolve))
  await certificates.read()
  t.strictSame([await daysLeft(), faults], [20, [`localhost:${port}`]])
})
