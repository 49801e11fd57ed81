/**
 * `npm run documents`: writes the pages that follow from the code, and wraps the text of all pages.
 * With `-- --check` it writes nothing and ends with 1 when one of them is out of date; `npm run
 * check` does that.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { commandLine, headOf } from '../command-line.ts'
import { documents } from './documents.ts'
import { withService } from './service.ts'

const { values: options } = commandLine('documents', headOf(import.meta.filename), {
  check: { type: 'boolean', default: false },
})

await withService((service) => {
  for (const { path, text } of documents) {
    const file = join(import.meta.dirname, '../..', path)
    const now = text(service)
    if (!options.check) writeFileSync(file, now)
    else if (readFileSync(file, 'utf8') !== now) {
      console.error(`${path} is out of date: npm run documents`)
      process.exitCode = 1
    }
  }
})
