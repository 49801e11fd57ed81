/**
 * The abuse table: `npm run test:long -- --only abuse [--attack <words>]… [--seconds 8]`. Each
 * attack runs against a new service beside three ordinary users. Prints one line per attack, the
 * table, and `N held, M failed`; the exit code says whether all held.
 */
import { commandLine, headOf } from '../../../infra/command-line.ts'
import { attacks } from './attacks.ts'
import { isOwnNetwork } from './own-network.ts'
import { lineOf, tableOf } from './row.ts'
import { type AbuseOptions, runAbuse } from './run-abuse.ts'

const { values: options, refuse } = commandLine('test:long -- --only abuse', headOf(import.meta.filename), {
  attack: { type: 'string', multiple: true, default: [''] },
  seconds: { type: 'string', default: '8' },
  /** A few attacks, without the sink and without a restart after each: what `npm test` runs. */
  short: { type: 'boolean', default: false },
})

const chosen = attacks.filter(
  ({ name, short, manyIpv6 }) =>
    options.attack.some((words) => name.includes(words)) &&
    (short || !options.short) &&
    (isOwnNetwork() || !manyIpv6),
)
if (chosen.length === 0) refuse(`no attack is called ${options.attack.join(' or ')}`)
if (!isOwnNetwork()) console.log('  no network namespace here: attacks that need IPv6 networks are left out')

const form: Pick<AbuseOptions, 'beforeSeconds' | 'referenceSeconds' | 'restart' | 'lenient'> = options.short
  ? { beforeSeconds: 2, referenceSeconds: 1, restart: false, lenient: true }
  : { beforeSeconds: 4, referenceSeconds: 4, restart: true, lenient: false }
const rows = await runAbuse({
  attacks: chosen,
  secondsOf: ({ seconds }) => (options.short ? undefined : seconds) ?? Number(options.seconds),
  report: (line) => console.log(`  ${line}`),
  ...form,
})
const failed = rows.filter(({ faults }) => faults.length > 0)
console.log(`\n${tableOf(rows)}\n`)
for (const row of failed) console.log(`  ${lineOf(row)}`)
console.log(`${rows.length - failed.length} held, ${failed.length} failed`)
process.exitCode = failed.length === 0 ? 0 : 1
