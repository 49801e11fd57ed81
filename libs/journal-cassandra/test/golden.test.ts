/** The statements of released migrations: keyspaces were made by them. */
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'
import { migrations } from '../src/migrations.ts'

t.test('keyspaces were made by the migrations', async (t) => {
  const lines = migrations.flatMap((statements, version) =>
    statements.map((statement) => `${version + 1} ${statement.replaceAll(/\s+/g, ' ')}`),
  )
  sameAsGolden(t, import.meta.dirname, 'migrations.txt', lines)
})
