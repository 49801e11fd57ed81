/** The store's contracts over LevelDB, which takes RocksDB's place where that has no binding. */
import { blobStoreContract, get, nodeStoreContract } from '@holdfast/blob-store/testing'
import t, { type Test } from 'tap'
import { ChunkStore } from '../src/index.ts'
import { withoutHashThreads } from '../src/testing.ts'
import { realOptions } from './support/crash-history.ts'
import { rotOnDisk } from './support/rot.ts'

const openStore = (path: string) =>
  ChunkStore.open({ path, ...realOptions, catalogue: 'level' }, withoutHashThreads)

async function rot(t: Test, store: ChunkStore, blob: Parameters<typeof get>[1]): Promise<ChunkStore> {
  const bytes = await get(store, blob)
  await store.close() // forgets what was verified
  if (rotOnDisk(t.testdirName, bytes) === 0) throw new Error('the bytes are not there')
  return openStore(t.testdirName)
}

const common = {
  passed: (t: Test, name: string) => void t.pass(name),
  open: (t: Test) => openStore(t.testdir()),
  rot,
}

t.test('as a store', async (t) => {
  blobStoreContract<Test>({
    ...common,
    test: (name, body) => t.test(name, body),
    reopen: async (t, store) => {
      await store.close()
      return openStore(t.testdirName)
    },
  })
})

t.test('as the store of a node', async (t) => {
  nodeStoreContract<Test>({ ...common, test: (name, body) => t.test(name, body) })
})
