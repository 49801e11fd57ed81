/** The blob store suites over loopback: a store behaves the same over the network. */

import { type BlobInfo, type BlobName, MemoryBlobStore, type NodeStore } from '@holdfast/blob-store'
import { blobStoreContract, nodeStoreContract } from '@holdfast/blob-store/testing'
import { ChunkStore } from '@holdfast/chunk-store'
import { testChunkStore, withoutHashThreads } from '@holdfast/chunk-store/testing'
import t, { type Test } from 'tap'
import { RemoteBlobStore, serveBlobStore } from '../src/index.ts'
import { plainRemote, plainServer } from '../src/testing.ts'

const secret = 'a secret of this test'
const MiB = 1024 * 1024

const stores: [string, (t: Test) => Promise<NodeStore>][] = [
  ['a memory store', async () => new MemoryBlobStore()],
  [
    'a chunk store',
    (t) =>
      ChunkStore.open(
        {
          ...testChunkStore,
          path: t.testdir(),
          extentBytes: 16 * MiB,
          extentStepBytes: 4 * MiB,
          lowWaterBytes: MiB,
          uploadMemoryBytes: 8 * MiB,
        },
        withoutHashThreads,
      ),
  ],
]

/** A client that closes its node when it is closed. */
async function remoteOf(store: NodeStore): Promise<RemoteBlobStore> {
  const server = await serveBlobStore(store, { ...plainServer, secret })
  const { control, bytes } = server
  const remote = new RemoteBlobStore({ ...plainRemote, control, bytes, secret })
  const { close } = remote
  remote.close = async () => {
    await close.call(remote)
    await server.close({ drainMs: 0 })
    await store.close()
  }
  return remote
}

for (const [name, open] of stores) {
  const behind = new Map<Test, NodeStore>()
  const rotting = async <Store>(t: Test, store: Store, blob: BlobInfo) => {
    ;(behind.get(t) as MemoryBlobStore).rot(blob)
    return store
  }
  const rot = name === 'a memory store' ? { rot: rotting } : {}

  t.test(`in front of ${name}`, async (t) => {
    blobStoreContract<Test>({
      test: (name, body) => t.test(name, body),
      passed: (t, name) => void t.pass(name),
      open: async (t) => {
        const store = await open(t)
        behind.set(t, store)
        return remoteOf(store)
      },
      ...rot,
    })
  })

  t.test(`in front of ${name}, as one of many`, async (t) => {
    nodeStoreContract<Test>({
      test: (name, body) => t.test(name, body),
      passed: (t, name) => void t.pass(name),
      open: async (t) => {
        const store = await open(t)
        behind.set(t, store)
        // Notes and verifying are local to a node: they are not served.
        return Object.assign(await remoteOf(store), {
          note: (name: string) => store.note(name),
          setNote: (name: string, value: Uint8Array | undefined) => store.setNote(name, value),
          verify: (blob: BlobName, options?: { signal?: AbortSignal }) => store.verify(blob, options),
        })
      },
      ...rot,
    })
  })
}
