/**
 * `npm run documents`: writes the pages that follow from the code. A test fails while one of them
 * differs from the output of this program.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { commandLine, headOf } from '../command-line.ts'
import { documents } from './documents.ts'

commandLine('documents', headOf(import.meta.filename), {})

for (const { path, text } of documents) {
  writeFileSync(join(import.meta.dirname, '../..', path), await text())
  console.log(path)
}
