/**
 * The acceptance suite against a running service:
 *
 *   npm run test:acceptance -- [--api URL] [--upload URL] [--download URL] [--admin URL]
 *                              [--web URL] [--outbox DIR] [--only TEXT] [--names]
 *                              [--admin-token FILE] [--network 100.64]
 *                              [--proxied] [--rate-limited] [--names-at ADDRESS]
 *                              [--parallel 12]
 *
 * URL may be several, comma-separated: they are used in turn. Without options it tries the default
 * addresses and, when none answers, starts the service itself on free ports with a separate data
 * directory. A service on another machine asks operators for the token in FILE. With `--network`
 * each case calls from an address of its own, which this machine must have. `--proxied` leaves
 * out the cases that a proxy in front changes, `--rate-limited` those that need a service without
 * rate limits (`proxied.ts`); neither asks for all rows. With `--names-at` all names lead to that
 * address, independent of DNS.
 */
import { readFileSync } from 'node:fs'
import { commandLine, headOf } from '../../infra/command-line.ts'
import { Standalone } from '../support/standalone.ts'
import { allCases } from './cases.ts'
import { type Comparison, compareWithDocuments } from './compared.ts'
import { describeCoverage } from './coverage.ts'
import { leadNamesTo } from './http.ts'
import { hostsOf, Instances } from './instances.ts'
import { directCases, isOf, unlimitedCases } from './proxied.ts'
import { emptyRows, type Result, runCases } from './suite.ts'
import type { Hosts } from './world.ts'

const { values: options } = commandLine('test:acceptance', headOf(import.meta.filename), {
  api: { type: 'string' },
  upload: { type: 'string' },
  download: { type: 'string' },
  admin: { type: 'string' },
  web: { type: 'string' },
  outbox: { type: 'string' },
  'admin-token': { type: 'string' },
  network: { type: 'string' },
  proxied: { type: 'boolean', default: false },
  'rate-limited': { type: 'boolean', default: false },
  'names-at': { type: 'string' },
  parallel: { type: 'string', default: '12' },
  only: { type: 'string' },
  names: { type: 'boolean', default: false },
})

const addressGiven = [
  options.api,
  options.upload,
  options.download,
  options.admin,
  options.web,
  options.outbox,
].some((given) => given !== undefined)
const instances = new Instances()
const service =
  addressGiven || (await listens('http://127.0.0.1:8080')) ? undefined : await Standalone.start()
if (service) console.log(`started the service at ${service.api} with ${service.dataDir}`)
const hosts = service ? hostsOf(service) : givenHosts()

if (options['names-at'] !== undefined) leadNamesTo(options['names-at'])
const leftOut = [...(options.proxied ? directCases : []), ...(options['rate-limited'] ? unlimitedCases : [])]
const chosen = allCases.filter(({ name }) => name.includes(options.only ?? '') && !isOf(leftOut, name))
const whole = options.only === undefined && leftOut.length === 0
let code = 1
try {
  const results = await runCases(chosen, {
    hosts,
    instances,
    network: options.network,
    parallel: Number(options.parallel),
    report,
  })
  const comparison = await compareWithDocuments([hosts, ...(await instances.hosts())])
  code = conclude(results, comparison)
} finally {
  await instances.stop()
  await service?.stop()
}
process.exit(code)

function givenHosts(): Hosts {
  const list = (given: string | undefined, otherwise: string) =>
    (given ?? otherwise).split(',').map((url) => url.trim().replace(/\/$/, ''))
  const api = list(options.api, 'http://127.0.0.1:8080')
  return {
    api,
    upload: list(options.upload, 'http://127.0.0.1:8081'),
    download: list(options.download, 'http://127.0.0.1:8082'),
    admin: list(options.admin, 'http://127.0.0.1:8090'),
    adminToken: options['admin-token'] && readFileSync(options['admin-token'], 'utf8').trim(),
    web: list(options.web, api[0] as string)[0] as string,
    outbox: list(options.outbox, './data/outbox'),
  }
}

async function listens(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  )
}

function report({ case: { name }, error, ms }: Result): void {
  console.log(`${error === undefined ? 'ok    ' : 'NOT OK'} ${name} (${Math.round(ms)} ms)`)
  if (error !== undefined) console.log(indented(reasonOf(error)))
}

/** The message and its place in the case. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const place = error.stack?.split('\n').find((line) => line.includes('/cases/'))
  return place === undefined ? (error.stack ?? error.message) : `${error.message}\n${place}`
}

function indented(text: string): string {
  return text.replace(/^/gm, '         ')
}

function conclude(results: Result[], { compared, unseen, undocumented }: Comparison): number {
  const passed = results.filter((result) => result.error === undefined)
  const failed = results.filter((result) => result.error !== undefined)
  console.log(
    `\n${describeCoverage(
      passed.map((result) => result.case),
      options.names,
    )}\n`,
  )
  const empty = whole ? emptyRows(results) : []
  for (const row of empty) console.log(`no passing case covers ${row}`)
  const untried = whole ? unseen : []
  for (const name of untried) console.log(`no case calls ${name} of the OpenAPI document`)
  for (const kind of undocumented) console.log(`not in the OpenAPI document: ${kind}`)
  for (const result of failed) console.log(`NOT OK ${result.case.name}`)
  const faults = failed.length + empty.length + untried.length + undocumented.length
  console.log(`\n${compared} kinds of answers, ${undocumented.length} undocumented`)
  console.log(`${passed.length} passed, ${faults} failed`)
  return faults === 0 ? 0 : 1
}
