/**
 * Subjects of hosts of accounts, parts of large requests, and keys of routes: other processes and
 * stores have them.
 */
import { hex } from '@holdfast/kernel'
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'
import { cutRequest } from '../src/request-parts.ts'
import { emailKey, routeKey } from '../src/share-code-routes.ts'
import * as subjects from '../src/subjects.ts'

t.test('subjects of hosts', async (t) => {
  const lines = Object.entries(subjects).map(([name, of]) => `${name} ${of('host-1')}`)
  sameAsGolden(t, import.meta.dirname, 'subjects.txt', lines.sort())
})

t.test('keys of routes', async (t) => {
  const lines = [emailKey('Anna@Example.org'), routeKey(8, 1_000), routeKey(6, 70)]
  sameAsGolden(t, import.meta.dirname, 'routes.txt', lines)
})

t.test('parts of large requests', async (t) => {
  const parts = [...cutRequest(Buffer.alloc(700_000, 5), Buffer.alloc(16, 9))]
  const lines = parts.map((part) => `${hex(part.subarray(0, 28))}… ${part.length}`)
  sameAsGolden(t, import.meta.dirname, 'parts.txt', lines)
})
