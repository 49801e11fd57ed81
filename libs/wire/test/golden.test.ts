/** Fields of all messages with their numbers and types: journals and other processes have them. */
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'
import { protoFiles } from '../../../test/support/proto-fields.ts'

t.test('fields of messages keep their numbers and types', async (t) => {
  const lines = protoFiles().flatMap(({ file, fields }) => [`# ${file}`, ...fields])
  t.ok(lines.length > 300, `${lines.length} lines`)
  sameAsGolden(t, import.meta.dirname, 'fields.txt', lines)
})
