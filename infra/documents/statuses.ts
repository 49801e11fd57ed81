/**
 * `apps/api/STATUSES.md`: every status with its HTTP code and meaning, from the table of
 * `libs/http-kit`; and who answers it, from the OpenAPI document and the sources.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { httpCodeOf, type KnownStatus, statuses } from '@holdfast/http-kit'
import { reasons } from '../../apps/ctl/src/admin-client.ts'
import type { RunningService } from './service.ts'
import { generatedMark, table } from './table.ts'

const root = join(import.meta.dirname, '../..')
/** Links, direct links, archives and pages have no operations in the document. */
const ofDownloads: readonly KnownStatus[] = [
  'error-token',
  'error-notFound',
  'error-notOwner',
  'error-passwordRequired',
  'error-passwordWrong',
  'error-precondition',
  'error-range',
  'error-blocked',
]
/** A status that more operations answer is shown with their number. */
const manyOperations = 12

export function statusesPage({ operations }: RunningService): string {
  const answered = operationsByStatus(operations)
  const rooms = roomsByStatus()
  const known = Object.entries(statuses)
  const parameters = [...answered.keys()]
    .filter((status) => status !== 'ok' && !Object.hasOwn(statuses, status))
    .sort()
  const ofAdmin = Object.keys(reasons).filter(
    (status) => !Object.hasOwn(statuses, status) && !parameters.includes(status),
  )
  return `${generatedMark}

# Statuses

An error body is \`{"status": "error-<name>"}\` and nothing else. Clients branch on \`status\`. This page is part of the
contract (\`CONTRACT.md\`, Errors).

## Statuses with a meaning of their own

"Answered by" has the operations that declare the status in \`/openapi.json\`. "Raised in" has the packages whose sources
name it; \`libs/access\` makes \`error-notOwner\`, \`error-passwordRequired\` and \`error-passwordWrong\` of its verdicts.

${table(
  ['status', 'HTTP', 'meaning', 'answered by', 'raised in'],
  known.map(([status, { code, meaning }]) => [
    `\`${status}\``,
    String(code),
    meaning,
    operationsText(answered.get(status) ?? []),
    (rooms.get(status) ?? []).join(', '),
  ]),
)}

Downloads and pages are not in the OpenAPI document. They answer what every operation answers, and
${ofDownloads.map((status) => `\`${status}\``).join(', ')}.

## Statuses of parameters

A missing or bad parameter answers 400 with its own name. Attributes of \`PUT /contents/{contentId}/update\` count as parameters.

${table(
  ['status', 'HTTP', 'answered by'],
  parameters.map((status) => [
    `\`${status}\``,
    String(httpCodeOf(status)),
    operationsText(answered.get(status) ?? []),
  ]),
)}

## Statuses of the admin host

Beside these the admin host answers parameters by their names, as the API does.

${table(
  ['status', 'HTTP', 'meaning'],
  ofAdmin.map((status) => [`\`${status}\``, String(httpCodeOf(status)), reasons[status] ?? '']),
)}
`
}

export function operationsByStatus(operations: RunningService['operations']): Map<string, string[]> {
  const byStatus = new Map<string, string[]>()
  for (const [path, methods] of Object.entries(operations))
    for (const [method, { responses }] of Object.entries(methods))
      for (const { content } of Object.values(responses ?? {}))
        for (const status of content?.['application/json']?.schema?.properties?.status?.enum ?? [])
          byStatus.set(status, [...(byStatus.get(status) ?? []), `${method.toUpperCase()} ${path}`])
  return byStatus
}

function operationsText(operations: readonly string[]): string {
  if (operations.length > manyOperations) return `${operations.length} operations`
  return operations.map((operation) => `\`${operation}\``).join(', ')
}

/** Tests and the table itself left aside. */
function roomsByStatus(): Map<string, string[]> {
  const byStatus = new Map<string, string[]>()
  for (const kind of ['apps', 'libs'])
    for (const name of readdirSync(join(root, kind)).sort()) {
      const found = new Set(sourcesOf(`${kind}/${name}/src`).flatMap(statusesIn))
      for (const status of found)
        byStatus.set(status, [...(byStatus.get(status) ?? []), `\`${kind}/${name}\``])
    }
  return byStatus
}

/** The sources of a package, without those that only put statuses into words or declare them. */
function sourcesOf(folder: string): string[] {
  if (!existsSync(join(root, folder))) return []
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !wordings.includes(`${folder}/${file}`))
    .map((file) => readFileSync(join(root, folder, file), 'utf8'))
}

const wordings = [
  'apps/ctl/src/admin-client.ts',
  'libs/web/src/problem-page.ts',
  'libs/http-kit/src/answers/responses.ts',
]

function statusesIn(source: string): string[] {
  const raising = source
    .replace(/\brefusals: \[[^\]]*\]/g, '')
    .replace(/export const statuses = \{.*?\n\} as const/s, '')
  return [...raising.matchAll(/'(error-\w+)'/g)].map(([, status = '']) => status)
}
