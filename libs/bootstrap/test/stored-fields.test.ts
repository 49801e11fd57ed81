/**
 * A release drops the fields of a message that it does not know. So a new field that accounts store
 * needs a new format, and the fields of a released format never change.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'
import { storedFields } from '../../../test/support/proto-fields.ts'
import { type DataFormat, dataFormats } from '../src/data-format.ts'

const fileOf = ({ format }: DataFormat) => `fields-of-format-${format}.txt`

t.test('what accounts store has the fields of the newest format', async (t) => {
  const lines = storedFields()
  t.ok(lines.length > 100, `${lines.length} fields`)
  sameAsGolden(t, import.meta.dirname, fileOf(dataFormats.at(-1) as DataFormat), lines)
})

t.test('the fields of a released format are those of its tag', async (t) => {
  const git = (...words: string[]) =>
    execFileSync('git', words, { cwd: import.meta.dirname, encoding: 'utf8' })
  for (const format of dataFormats) {
    const golden = `golden/${fileOf(format)}`
    const tag = git('tag', '--list', `v${format.since}`).trim()
    const now = readFileSync(join(import.meta.dirname, golden), 'utf8')
    if (tag !== '') t.equal(now, git('show', `${tag}:./${golden}`), `${golden}: add a format to dataFormats`)
  }
})
