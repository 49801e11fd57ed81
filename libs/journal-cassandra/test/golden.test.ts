/** What keyspaces have: the statements of released migrations, and which rows are kept together. */
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'
import { partOf } from '../src/lookup-store.ts'
import { migrations } from '../src/migrations.ts'

t.test('keyspaces were made by the migrations', async (t) => {
  const lines = migrations.flatMap((statements, version) =>
    statements.map((statement) => `${version + 1} ${statement.replaceAll(/\s+/g, ' ')}`),
  )
  sameAsGolden(t, import.meta.dirname, 'migrations.txt', lines)
})

t.test('rows are in the partitions to which they were written', async (t) => {
  const account = '01234567-89ab-4def-8123-456789abcdef'
  const keys = [
    `ref/${'07'.repeat(48)}/${'08'.repeat(16)}/${account}`,
    `active/eu-par/host-1/3/${account}`,
    `wake/eu-par/23/500001/500001/${account}`,
    'hosts/eu-par/host-1',
    'hours/eu-par/23/first',
    'code/8-f/40',
    'email/anna@example.org',
    'setting/master',
    'pg/eu-par/0000000070/0000000003',
    'region/eu-par/0000000002/done',
    'nodes/all/eu-par-storage-1',
    'reconcile/eu-par',
    'takeover/eu-par/2',
    'acts/all/8299999999999-abc',
    'moderation/content/0cc175b9c0f1b6a831c399e269772661',
    'moderation/stamp',
    'reports/new/8299999999999-abc',
    'uploads/00472222/8299999999999-abc',
  ]
  const lines = keys.map((key) => `${key} in ${partOf(key)}`)
  sameAsGolden(t, import.meta.dirname, 'partitions.txt', lines)
})
