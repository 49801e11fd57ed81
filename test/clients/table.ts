/** The clients' table as text: client and version, its actions, its calls, the result. */
import type { Row } from './steps.ts'
import type { Call } from './tls-proxy.ts'

/** Lines of calls shown for a step; the rest is counted. */
const callsShown = 12

const marks = { ok: 'ok    ', failed: 'FAILED', "client's own": 'own   ' } as const

/** Every client, and the counts in the last line. */
export function clientsTable(rows: readonly Row[]): string[] {
  return [...linesOf(rows), '', closingLine(rows)]
}

export function linesOf(rows: readonly Row[]): string[] {
  const lines: string[] = []
  let last = ''
  for (const row of rows) {
    const client = `${row.client} ${row.version}`
    if (row.client !== last) lines.push('', client)
    last = row.client
    lines.push(`  ${marks[row.result]}  ${row.what} (${row.ms} ms)`)
    if (row.result === "client's own") lines.push(`            the client's own: ${row.detail}`)
    lines.push(...callLines(row.calls).map((line) => `            ${line}`))
    if (row.result === 'failed') lines.push(...row.detail.split('\n').map((line) => `          ! ${line}`))
  }
  return lines
}

export function closingLine(rows: readonly Row[]): string {
  const count = (result: Row['result']) => rows.filter((row) => row.result === result).length
  const clients = new Set(rows.map(({ client }) => client)).size
  const calls = rows.reduce((sum, row) => sum + row.calls.length, 0)
  return `${clients} clients, ${rows.length} steps, ${calls} calls: ${count('ok')} ok, ${count("client's own")} the client's own fault, ${count('failed')} failed`
}

/** Each kind of call once, with its number. */
function callLines(calls: readonly Call[]): string[] {
  const counts = new Map<string, number>()
  for (const call of calls) {
    const line = describe(call)
    counts.set(line, (counts.get(line) ?? 0) + 1)
  }
  const lines = [...counts].map(([line, count]) => (count === 1 ? line : `${line}  × ${count}`))
  return lines.length <= callsShown
    ? lines
    : [...lines.slice(0, callsShown - 1), `and ${lines.length - callsShown + 1} kinds of calls more`]
}

/** Calls that the service refused because something is missing, or did not answer. */
export function failedCalls(calls: readonly Call[]): string[] {
  return calls.filter(({ status }) => status === 429 || status >= 500 || status === 0).map(describe)
}

function describe({ method, host, path, status, broken }: Call): string {
  const [plain = '', query = ''] = path.split('?', 2)
  const named = plain
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, '{id}')
    .replace(/^(\/(?:contents|d)\/)[A-Za-z0-9]{8}$/, '$1{code}')
    .replace(/^(\/download\/.*\/)[^/]+$/, '$1{name}')
  const parameters = [...new URLSearchParams(query).keys()].join(',')
  return `${method} ${host || 'www'} ${named}${parameters === '' ? '' : `?${parameters}`} ${status || 'no answer'}${broken === '' ? '' : ` (${broken})`}`
}
