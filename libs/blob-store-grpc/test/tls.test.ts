/**
 * Certificates on both sides: a client of another authority gets nothing, and new certificates need
 * no restart.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { digestOf, MemoryBlobStore } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import { Authority, type TlsFiles } from '@holdfast/trust'
import { openTlsFiles } from '@holdfast/trust/testing'
import t, { type Test } from 'tap'
import { RemoteBlobStore, serveBlobStore } from '../src/index.ts'
import { plainRemote, plainServer } from '../src/testing.ts'

const secret = 'a secret of this test'
const directory = t.testdir()
const authority = await Authority.create(join(directory, 'right'), { name: 'right', days: 30 })
const names = ['127.0.0.1']
await authority.issue({ host: 'node', names }, { days: 30 })
await authority.issue({ host: 'client', names: [] }, { days: 30 })
await authority.issue({ host: 'elsewhere', names: ['127.0.0.9'] }, { days: 30 })
await authority.issue({ host: 'over', names }, { days: -1 })
const otherAuthority = await Authority.create(join(directory, 'other'), { name: 'right', days: 30 })
await otherAuthority.issue({ host: 'node', names }, { days: 30 })
await authority.issue({ host: 'mixed', names }, { days: 30 })
for (const name of ['node.pem', 'node.key'])
  await cp(join(directory, 'other/node', name), join(directory, 'right/mixed', name))

function filesOf(host: string, { of = 'right', shown = true } = {}): TlsFiles {
  const at = (name: string) => join(directory, of, host, name)
  const files = openTlsFiles({
    ca: at('ca.pem'),
    own: shown ? { cert: at('node.pem'), key: at('node.key') } : undefined,
  })
  t.teardown(() => files.close())
  return files
}

async function pair(t: Test, { node = filesOf('node'), client = filesOf('client') } = {}) {
  const store = new MemoryBlobStore()
  const server = await serveBlobStore(store, { ...plainServer, secret, tls: node })
  t.teardown(() => server.close({ drainMs: 0 }))
  const open = (tls: TlsFiles | undefined) => {
    const { control, bytes } = server
    const at = tls === undefined ? bytes.replace('https', 'http') : bytes
    const remote = new RemoteBlobStore(
      { ...plainRemote, control, bytes: at, secret, tls },
      { callTimeoutMs: 10_000 },
    )
    t.teardown(() => remote.close())
    return remote
  }
  return { store, server, remote: open(client), open }
}

function smallBlob() {
  const bytes = randomBytes(700)
  return { id: digestOf(bytes).id, bytes }
}

function terms() {
  return { uploadId: randomBytes(16), placement: { group: 5, version: 1 }, pinMs: 60_000 }
}

t.test('a client without a valid certificate of the authority gets nothing, by gRPC or HTTP', async (t) => {
  const { store, server, open, remote } = await pair(t)
  const info = await put(store, Buffer.from('private'))
  t.equal(String(await get(remote, info, 0, 7)), 'private')
  const clients = {
    'no certificate': filesOf('client', { shown: false }),
    'no encryption': undefined,
    'one that expired': filesOf('over'),
    'one of another authority, which itself trusts the node': filesOf('mixed'),
  }
  for (const [name, tls] of Object.entries(clients)) {
    const one = open(tls)
    await t.rejects(one.stat(info), { code: 'UNAVAILABLE' }, name)
    await t.rejects(get(one, info, 0, 7), { code: 'UNAVAILABLE' }, name)
    await t.rejects(one.put(smallBlob(), terms()), { name: 'BlobFault' }, name)
    await t.rejects(one.stage(), { name: 'BlobFault' }, name)
  }
  t.equal((await store.usage()).blobs, 1, 'nothing was stored')
  t.equal(server.figures().calls, 0)
})

t.test('a node without a valid certificate for its address is not believed', async (t) => {
  const nodes = {
    'one of another authority of the same name': filesOf('node', { of: 'other' }),
    'one that expired': filesOf('over'),
    'one of another host': filesOf('elsewhere'),
  }
  for (const [name, node] of Object.entries(nodes)) {
    const { store, remote } = await pair(t, { node })
    const info = await put(store, Buffer.from('private'))
    await t.rejects(remote.stat(info), { code: 'UNAVAILABLE' }, name)
    await t.rejects(get(remote, info, 0, 7), { code: 'UNAVAILABLE' }, name)
    await t.rejects(remote.put(smallBlob(), terms()), { name: 'BlobFault' }, name)
    t.equal((await store.usage()).blobs, 1, `${name}: nothing was sent`)
  }
})

t.test('certificates, authority and secret are replaced under load without a failed call', async (t) => {
  // The operator's order: both authorities everywhere, then new certificates, then the new
  // authority alone. The new secret is accepted everywhere before it is used.
  const [node, client] = [filesOf('node'), filesOf('client')]
  const store = new MemoryBlobStore()
  let secrets: readonly string[] = [secret]
  const now = () => secrets
  const server = await serveBlobStore(store, { ...plainServer, secret: now, tls: node })
  t.teardown(() => server.close({ drainMs: 0 }))
  const { control, bytes } = server
  const open = () => {
    const remote = new RemoteBlobStore({ ...plainRemote, control, bytes, secret: now, tls: client })
    t.teardown(() => remote.close())
    return remote
  }
  const info = await put(store, Buffer.from('private'))
  const failures: unknown[] = []
  let calls = 0
  const steady = open()
  let ended = false
  const load = Array.from({ length: 4 }, async (_, lane) => {
    while (!ended) {
      try {
        // Lanes of new connections shake hands for each call.
        const remote = lane % 2 === 0 ? steady : open()
        await remote.stat(info)
        await remote.put(smallBlob(), terms())
        if (String(await get(remote, info, 0, 7)) !== 'private') throw new Error('other bytes')
        if (remote !== steady) await remote.close()
        calls += 3
      } catch (error) {
        failures.push(error)
      }
    }
  })
  const some = async () => {
    const until = calls + 30
    while (calls < until && failures.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  await some()
  const next = await Authority.create(join(directory, 'next'), { name: 'next', days: 30 })
  const at = (of: string, host: string, name: string) => join(directory, of, host, name)
  const read = (path: string) => readFileSync(path, 'utf8')
  const both = read(join(directory, 'right/ca.pem')) + read(join(directory, 'next/ca.pem'))
  const everywhere = async (change: (host: string) => Promise<unknown>) => {
    for (const [host, files] of [
      ['client', client],
      ['node', node],
    ] as const) {
      await change(host)
      t.ok(files.reload())
      await some()
    }
  }
  await everywhere((host) => writeFile(at('right', host, 'ca.pem'), both))
  for (const host of ['client', 'node']) await next.issue({ host, names }, { days: 20 })
  await everywhere(async (host) => {
    for (const name of ['node.pem', 'node.key']) await cp(at('next', host, name), at('right', host, name))
  })
  await everywhere((host) => cp(at('next', host, 'ca.pem'), at('right', host, 'ca.pem')))
  for (const step of [
    [secret, 'a second secret of it'],
    ['a second secret of it', secret],
    ['a second secret of it'],
  ]) {
    secrets = step
    await some()
  }
  ended = true
  await Promise.all(load)
  t.same(failures, [], `${calls} calls`)
  const late = open()
  t.ok(await late.stat(info), 'the new authority alone')
  const before = new RemoteBlobStore({ ...plainRemote, control, bytes, secret, tls: client })
  t.teardown(() => before.close())
  await t.rejects(before.stat(info), { code: 'INVALID' }, 'the old secret')
})
