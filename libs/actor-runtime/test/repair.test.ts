/** Repairs on journals in memory and in LevelDB; those on Cassandra are with its adapter. */

import { MemoryJournalStore, MemoryLookupStore, MemoryMedium } from '@holdfast/journal/testing'
import { LevelMetadataStore } from '@holdfast/journal-level'
import { testMetadataStore } from '@holdfast/journal-level/testing'
import { Level } from 'level'
import t, { type Test } from 'tap'
import { type DamagedPart, type OfflineStores, repairCases } from '../../../test/support/damaged-accounts.ts'

function spoiled(bytes: Uint8Array): Uint8Array {
  const copy = Buffer.from(bytes)
  const at = copy.length - 1
  copy[at] = (copy[at] as number) ^ 1
  return copy
}

t.test('in memory', async (t) => {
  repairCases(t, async (): Promise<OfflineStores> => {
    const medium = new MemoryMedium()
    const journal = new MemoryJournalStore(medium)
    return {
      journal,
      lookups: new MemoryLookupStore(medium),
      async damage(account, what, how) {
        const changed = (bytes: Uint8Array) => (how === 'spoil' ? spoiled(bytes) : undefined)
        if (typeof what === 'string') throw new Error(`${what} is not damaged here`)
        if ('page' in what) journal.damagePage(account, what.page, changed)
        else
          journal.damage(account, what.row, (row) => {
            const bytes = changed(row.bytes)
            return bytes && { ...row, bytes }
          })
      },
    }
  })
})

/** As the DESIGN of the format has them. */
function partKey(account: string, what: DamagedPart): Uint8Array {
  const key = (rest: string) => Buffer.from(`j${account}\0${rest}`, 'latin1')
  if (what === 'root') return key('r')
  if (what === 'facts') return key('s')
  if ('page' in what) return key(`p${what.page}`)
  const number = Buffer.alloc(6)
  number.writeUIntBE(what.row, 0, 6)
  return Buffer.concat([key('e'), number])
}

t.test('in LevelDB', async (t) => {
  const open = async (t: Test): Promise<OfflineStores> => {
    const path = t.testdir()
    let store = await LevelMetadataStore.open({ ...testMetadataStore, path })
    t.teardown(() => store.close())
    const place: OfflineStores = {
      journal: store.journals,
      lookups: store.lookups,
      async damage(account, what, how) {
        await store.close()
        const level = new Level<Uint8Array, Uint8Array>(`${path}/rows`, {
          keyEncoding: 'view',
          valueEncoding: 'view',
          compression: false,
        })
        const key = partKey(account, what)
        const stored = await level.get(key)
        if (stored === undefined) throw new Error('there is nothing to damage')
        if (how === 'spoil') await level.put(key, spoiled(stored))
        else await level.del(key)
        await level.close()
        store = await LevelMetadataStore.open({ ...testMetadataStore, path })
        place.journal = store.journals
        place.lookups = store.lookups
      },
    }
    return place
  }
  repairCases(t, open, ['facts', 'root'])
})
