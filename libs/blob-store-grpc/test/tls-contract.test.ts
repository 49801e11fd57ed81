/** The blob store suite with certificates on both sides. */
import { join } from 'node:path'
import { MemoryBlobStore } from '@holdfast/blob-store'
import { blobStoreContract } from '@holdfast/blob-store/testing'
import { Authority } from '@holdfast/trust'
import { openTlsFiles } from '@holdfast/trust/testing'
import t, { type Test } from 'tap'
import { RemoteBlobStore, serveBlobStore } from '../src/index.ts'
import { plainRemote, plainServer } from '../src/testing.ts'

const secret = 'a secret of this test'
const directory = t.testdir()
const authority = await Authority.create(directory, { name: 'test', days: 2 })
await authority.issue({ host: 'node', names: ['127.0.0.1'] }, { days: 2 })
const at = (name: string) => join(directory, 'node', name)
const tls = openTlsFiles({ ca: at('ca.pem'), own: { cert: at('node.pem'), key: at('node.key') } })
t.teardown(() => tls.close())

blobStoreContract<Test>({
  test: (name, body) => t.test(name, body),
  passed: (t, name) => void t.pass(name),
  open: async (t) => {
    const server = await serveBlobStore(new MemoryBlobStore(), { ...plainServer, secret, tls })
    t.teardown(() => server.close({ drainMs: 0 }))
    const { control, bytes } = server
    return new RemoteBlobStore({ ...plainRemote, control, bytes, secret, tls })
  },
})
