import {
  journalAccountsContract,
  journalRepairContract,
  journalStoreContract,
  lookupStoreContract,
  lookupWalkContract,
} from '@holdfast/journal/testing'
import t, { type Test } from 'tap'
import { LevelMetadataStore } from '../src/index.ts'
import { testMetadataStore } from '../src/testing.ts'
import { directory } from './directories.ts'

async function open(t: Test) {
  const path = await directory(t)
  let store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  t.teardown(() => store.close())
  const reopen = async () => {
    await store.close()
    store = await LevelMetadataStore.open({ ...testMetadataStore, path })
    return store
  }
  return { store, reopen }
}

t.test('journals in LevelDB', async (t) => {
  journalStoreContract({
    test: t.test,
    open: async (t: Test) => {
      const { store, reopen } = await open(t)
      return { journals: store.journals, reopen: async () => (await reopen()).journals }
    },
  })
})

t.test('everything in LevelDB', async (t) => {
  lookupWalkContract({ test: t.test, open: async (t: Test) => (await open(t)).store.lookups })
  journalAccountsContract({ test: t.test, open: async (t: Test) => (await open(t)).store.journals })
  journalRepairContract({ test: t.test, open: async (t: Test) => (await open(t)).store.journals })
})

t.test('lookups in LevelDB', async (t) => {
  lookupStoreContract({
    test: t.test,
    linearizableWrites: true,
    open: async (t: Test) => {
      const { store, reopen } = await open(t)
      return { lookups: store.lookups, reopen: async () => (await reopen()).lookups }
    },
  })
})
