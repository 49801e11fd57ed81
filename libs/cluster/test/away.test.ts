/** A start while Cassandra is away: an operator reads what is missing. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import t from 'tap'
import { openMetadata } from '../src/servers/metadata.ts'

t.test('Cassandra that does not answer is named', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  const cassandra = { nodes: { 'eu-par': [{ host: '127.0.0.1', port }] }, replicas: 1, tlsCa: undefined }
  const opening = openMetadata(
    { region: 'eu-par', regions: ['eu-par'], cassandra },
    {
      ...{ journals: true, credentials: undefined, tls: undefined },
      ...{ termOf: () => 1, handedOver: () => false, onRequest: () => {} },
    },
  )
  await t.rejects(opening, {
    code: 'SERVER_AWAY',
    message: new RegExp(`^Cassandra at 127.0.0.1:${port} cannot be used \\(HOLDFAST_CASSANDRA\\): `),
  })
})
