/** Keys of rows and subjects of the cluster: stores and other processes have them. */
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'
import * as keys from '../src/row-keys.ts'
import * as subjects from '../src/subjects.ts'

t.test('keys of rows', async (t) => {
  const at = { number: 70, term: 2, version: 3 }
  const lines = Object.entries(keys).map(
    ([name, of]) => `${name} ${typeof of === 'string' ? of : of('eu-par', at)}`,
  )
  sameAsGolden(t, import.meta.dirname, 'row-keys.txt', lines.sort())
})

t.test('subjects', async (t) => {
  const { heardByAll, ...bySubject } = subjects
  const lines = [
    ...Object.entries(bySubject).map(([name, of]) => `${name} ${of('eu-par')}`),
    ...Object.entries(heardByAll).map(([name, subject]) => `${name} ${subject}`),
  ]
  sameAsGolden(t, import.meta.dirname, 'subjects.txt', lines.sort())
})
