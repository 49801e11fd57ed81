import { blobStoreContract, get } from '@holdfast/blob-store/testing'
import t, { type Test } from 'tap'
import { ChunkStore } from '../src/index.ts'
import { testChunkStore } from '../src/testing.ts'
import { realOptions as small } from './support/crash-history.ts'
import { rotOnDisk } from './support/rot.ts'

blobStoreContract<Test>({
  test: (name, body) => t.test(name, body),
  passed: (t, name) => void t.pass(name),
  open: (t) => ChunkStore.open({ ...testChunkStore, path: t.testdir(), ...small }),
  reopen: async (t, store) => {
    await store.close()
    return ChunkStore.open({ ...testChunkStore, path: t.testdirName, ...small })
  },
  rot: async (t, store, blob) => {
    const bytes = await get(store, blob)
    await store.close() // forgets what was verified
    if (rotOnDisk(t.testdirName, bytes) === 0) throw new Error('the bytes are not there')
    return ChunkStore.open({ ...testChunkStore, path: t.testdirName, ...small })
  },
})
