/** Subjects of hosts of accounts: other processes have them. */
import t from 'tap'
import { golden } from '../../../infra/golden.ts'
import * as subjects from '../src/subjects.ts'

t.test('subjects of hosts', async (t) => {
  const lines = Object.entries(subjects).map(([name, of]) => `${name} ${of('host-1')}`)
  const { is, was } = golden(import.meta.dirname, 'subjects.txt', lines.sort())
  t.strictSame(is, was)
})
