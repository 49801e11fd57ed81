/** The statements of released migrations: keyspaces were made by them. */
import t from 'tap'
import { golden } from '../../../infra/golden.ts'
import { migrations } from '../src/migrations.ts'

t.test('migrations are what keyspaces were made by', async (t) => {
  const lines = migrations.flatMap((statements, version) =>
    statements.map((statement) => `${version + 1} ${statement.replaceAll(/\s+/g, ' ')}`),
  )
  const { is, was } = golden(import.meta.dirname, 'migrations.txt', lines)
  t.strictSame(is, was)
})
