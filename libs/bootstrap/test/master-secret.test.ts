import { readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { JournalFault, type LookupStore } from '@holdfast/journal'
import t from 'tap'
import { masterRow, openKeptKeyring } from '../src/index.ts'

/** The row of the key and nothing else. */
function rowOf(state: { value: Uint8Array | undefined; isCorrupt?: boolean }): LookupStore {
  return {
    async get(key: string) {
      if (key !== masterRow) throw new Error(`${key} was read`)
      if (state.isCorrupt === true) throw new JournalFault('CORRUPT', 'the row is damaged')
      return state.value
    },
    async write([change]: readonly [{ put: string; value: Uint8Array }]) {
      Object.assign(state, { value: change.value, isCorrupt: false })
    },
  } as unknown as LookupStore
}

const damages: Record<string, (path: string) => void> = {
  empty: (path) => writeFileSync(path, ''),
  'cut off': (path) => writeFileSync(path, readFileSync(path).subarray(0, 40)),
  'a changed digit': (path) =>
    writeFileSync(
      path,
      readFileSync(path, 'latin1').replace(/^1 (.)/, (_, digit) => `1 ${digit === '0' ? 1 : 0}`),
    ),
  missing: (path) => rmSync(path),
  ...(process.platform === 'linux' && {
    unreadable: (path: string) => {
      rmSync(path)
      symlinkSync('/proc/self/mem', path) // reads answer EIO
    },
  }),
}

t.test('if the row or the copy of the master key is lost, it is written again from the other', async (t) => {
  for (const [what, damage] of Object.entries(damages)) {
    const row: Parameters<typeof rowOf>[0] = { value: undefined }
    const copy = join(t.testdir(), 'master.key')
    let accounts = false
    const open = () =>
      openKeptKeyring({
        lookups: rowOf(row),
        copy,
        isNew: async () => !accounts,
        onNoCopy: (error) => {
          throw error
        },
      })
    await open()
    accounts = true
    const [key, text] = [row.value, readFileSync(copy)]
    damage(copy)
    await open()
    t.same(row.value, key, what)
    t.same(readFileSync(copy), text, what)

    for (const lost of [{ isCorrupt: true }, { value: undefined }]) {
      Object.assign(row, lost)
      await open()
      t.match(row, { value: key, isCorrupt: false }, what)
      Object.assign(row, lost)
      damage(copy)
      await t.rejects(open(), { code: 'DATA_UNUSABLE', message: /master key is lost/ }, what)
      rmSync(copy, { force: true })
      writeFileSync(copy, text)
    }
  }
})
