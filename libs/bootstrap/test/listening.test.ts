import { lookup } from 'node:dns/promises'
import fastify from 'fastify'
import t from 'tap'
import { chosenPorts, listen, urlOf } from '../src/index.ts'

t.test('localhost is listened to on all of its addresses, by one server', async (t) => {
  const addresses = new Set((await lookup('localhost', { all: true })).map(({ address }) => address))
  addresses.add('127.0.0.1')
  let connections = 0
  // A host with its own server listens once; `createHttpHost` makes one.
  const { createServer } = await import('node:http')
  const app = fastify({
    serverFactory: (handle) => createServer(handle as never).on('connection', () => connections++),
  })
  app.get('/', async () => 'here')
  await listen(app, { name: 'api', host: 'localhost', port: 0 })
  const { port } = app.server.address() as { port: number }
  for (const address of addresses) {
    const answer = await fetch(urlOf(address, port))
    t.equal(await answer.text(), 'here', address)
  }
  t.ok(connections >= addresses.size, 'each of them is seen by the one server')
  await app.close()
  for (const address of addresses) await t.rejects(fetch(urlOf(address, port)), `${address} is closed`)
})

t.test('chosen ports differ, and no outgoing connection of the machine can take them', async (t) => {
  const chosen = await chosenPorts({ api: 0, upload: 0, download: 0, admin: 4 }, '127.0.0.1')
  t.equal(chosen.admin, 4, 'a configured one stays')
  t.equal(new Set(Object.values(chosen)).size, 4)
  for (const port of Object.values(chosen)) t.ok(port < 32_768, `${port}`)
})

t.test('hosts that start at the same time choose different ports', async (t) => {
  const choices = Array.from({ length: 200 }, () => chosenPorts({ api: 0, admin: 0 }, '127.0.0.1'))
  const ports = (await Promise.all(choices)).flatMap((chosen) => Object.values(chosen))
  t.equal(new Set(ports).size, ports.length)
})
