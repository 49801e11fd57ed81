/** Generated pages are up to date. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { documents } from '../infra/documents/documents.ts'

const root = join(import.meta.dirname, '..')

for (const { path, text } of documents)
  t.test(path, async (t) => {
    t.equal(readFileSync(join(root, path), 'utf8'), await text(), 'npm run documents')
  })
