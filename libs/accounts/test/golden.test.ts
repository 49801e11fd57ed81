/** Subjects of hosts of accounts: other processes have them. */
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'
import * as subjects from '../src/subjects.ts'

t.test('subjects of hosts', async (t) => {
  const lines = Object.entries(subjects).map(([name, of]) => `${name} ${of('host-1')}`)
  sameAsGolden(t, import.meta.dirname, 'subjects.txt', lines.sort())
})
