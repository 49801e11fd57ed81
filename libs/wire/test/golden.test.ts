/** Fields of all messages with their numbers and types: journals and other processes have them. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'

const proto = join(import.meta.dirname, '../../../proto')

/** Each field and each name of an enum, below the names that contain it. */
function* fieldsOf(text: string): Generator<string> {
  const within: string[] = []
  for (const [, opens, closes, type = '', name = '', number = ''] of text
    .replace(/\/\/.*$/gm, '')
    .matchAll(
      /(?:message|enum|oneof|service)\s+(\w+)\s*\{|(\})|((?:\w[\w.<>, ]*)?)\b(\w+)\s*=\s*(\d+)\s*[;[]/g,
    ))
    if (opens !== undefined) within.push(opens)
    else if (closes !== undefined) within.pop()
    else yield `${within.join('.')}.${name} = ${number} ${type.trim().replaceAll(/\s+/g, ' ')}`.trim()
}

t.test('fields of messages keep their numbers and types', async (t) => {
  const lines = globSync('**/*.proto', { cwd: proto })
    .sort()
    .flatMap((file) => [`# ${file}`, ...fieldsOf(readFileSync(join(proto, file), 'utf8'))])
  t.ok(lines.length > 300, `${lines.length} lines`)
  sameAsGolden(t, import.meta.dirname, 'fields.txt', lines)
})
