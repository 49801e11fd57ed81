/**
 * Every certificate and secret of a deployment is replaced while users of two regions work, by the
 * procedures of `infra/OPERATING.md` ("Certificates and secrets"). No request may fail. A proxy
 * that is reloaded closes idle connections, also one on which a request is just coming: users send
 * such requests again with their key.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { lacksOf } from '../../../infra/namespaces/namespaces.ts'
import { natsPasswords } from '../../../infra/regions/render/nats.ts'
import { serverPorts } from '../../../infra/regions/roles.ts'
import { DeployedRegions, successful } from './deployed.ts'
import { seconds, status, takesUploads, until } from './drills.ts'
import { leftOf } from './left.ts'
import { Load } from './load.ts'
import { smallFile } from './small-file.ts'

/** Processes read files again every 5 s. */
const rereadMs = 11_000
/** Of work after each step, so that new connections are made. */
const goOnMs = 20_000

/** @returns figures. @throws Error that says what the machine lacks, or what failed */
export async function renewalTrial(report: (line: string) => void): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-renewal-'))
  const deployed = new DeployedRegions(
    smallFile(folder, { name: 'renewal', count: 2 }),
    join(folder, 'hosts'),
  )
  const lacks = lacksOf(deployed.layout)
  if (lacks.length > 0) throw new Error(`this machine lacks ${lacks.join(', ')}`)
  const lines: string[] = []
  const printLine = (line: string) => {
    lines.push(line)
    report(line)
  }
  try {
    const upMs = await timed(() => deployed.infra('up'))
    printLine(`  up                     ${seconds(upMs)}`)
    await takesUploads(deployed)
    for (const [what, replace] of replacements)
      printLine(`  ${what.padEnd(22)} ${await underLoad(deployed, replace)}`)
  } catch (error) {
    await deployed.infra('down').catch((later) => console.error('down failed, too:', later))
    throw error
  }
  await deployed.infra('down')
  const left = leftOf(deployed)
  rmSync(folder, { recursive: true })
  if (left.length > 0) throw new Error(`down left ${left.join(', ')}`)
  return lines.join('\n')
}

type Replace = (deployed: DeployedRegions) => Promise<void>

const replacements: readonly [what: string, replace: Replace][] = [
  ['every certificate', replaceCertificates],
  ['cluster-secret', replaceClusterSecret],
  ['admin and metrics token', replaceTokens],
  ['password of Cassandra', replaceCassandraPassword],
  ['passwords of NATS', replaceNatsPasswords],
]

/** @throws Error when a request failed */
async function underLoad(deployed: DeployedRegions, replace: Replace): Promise<string> {
  const loads = await Promise.all(
    deployed.regions.map(({ code }) => Load.start(deployed, code, { repeats: true })),
  )
  let tookMs: number
  try {
    tookMs = await timed(() => replace(deployed))
    await pause(goOnMs)
  } finally {
    await Promise.all(loads.map((load) => load.stop()))
  }
  const requests = await Promise.all(loads.map((load) => load.stop()))
  const all = (name: 'done' | 'failed' | 'repeated') => sumOf(requests.map((one) => one[name]))
  const failed = all('failed')
  const counts = `${all('done')} requests, ${all('repeated')} repeated, ${failed} failed`
  const figures = `replaced in ${seconds(tookMs)}; ${counts}`
  if (failed > 0) throw new Error(`${figures}: ${JSON.stringify(requests.map(({ faults }) => faults))}`)
  return figures
}

async function replaceCertificates(deployed: DeployedRegions): Promise<void> {
  const begunS = Math.floor(Date.now() / 1_000)
  await deployed.certs('renew', '--within', '36500')
  await deployed.infra('up')
  await reread(deployed)
  await areIssued(deployed, begunS)
  for (const { code, names } of deployed.regions)
    for (const name of [names.api, names.upload, names.download]) {
      const shown = await shownTo(deployed, code, name)
      if (shown < begunS * 1_000) throw new Error(`${name} still shows its old certificate`)
    }
}

/** Servers read their files again on a reload; processes do so by themselves, within 5 s. */
async function reread(deployed: DeployedRegions): Promise<void> {
  await Promise.all(
    deployed.hosts.map(({ name }) =>
      deployed.sh(name, 'systemctl reload holdfast-nats caddy && nodetool reloadssl'),
    ),
  )
  await pause(rereadMs)
}

/** Processes have new certificates, and so have the servers that keep what they have loaded. */
async function areIssued(deployed: DeployedRegions, sinceS: number): Promise<void> {
  await until('every process has its new certificate', async () =>
    (await issuedTimes(deployed)).every((seconds) => seconds >= sinceS),
  )
  const { cassandra, proxyMetrics } = serverPorts
  for (const { name, internal } of deployed.hosts)
    for (const port of [cassandra.client, cassandra.storage, proxyMetrics]) {
      const shown = await begins(deployed, name, `-connect ${internal}:${port}`)
      if (shown < sinceS * 1_000) throw new Error(`port ${port} of ${name} shows its old certificate`)
    }
}

/** When the certificates that processes use were issued. */
async function issuedTimes(deployed: DeployedRegions): Promise<number[]> {
  const all = deployed.hosts.flatMap(({ name, internal, processes }) =>
    processes.map(async ({ ports }) => {
      const token = '$(cat /etc/holdfast/secrets/metrics-token)'
      const ask = `curl -sf --cacert /etc/holdfast/tls/ca.pem -H "authorization: Bearer ${token}" https://${internal}:${ports.admin}/metrics`
      const text = successful(ask, await deployed.on(name, 'sh', '-c', ask))
      const own = /^holdfast_certificate_issued_timestamp_seconds\{[^}]*certificate="own"[^}]*\} (\S+)$/gm
      const found = [...text.matchAll(own)].map(([, seconds]) => Number(seconds))
      if (found.length === 0) throw new Error(`a process of ${name} names no certificate`)
      return found
    }),
  )
  return (await Promise.all(all)).flat()
}

/** When the certificate begins that users of a region are shown, ms. */
async function shownTo(deployed: DeployedRegions, region: string, name: string): Promise<number> {
  return begins(deployed, `client-${region}`, `-connect ${name}:443 -servername ${name}`)
}

/** The same for what a host sees, ms. */
async function begins(deployed: DeployedRegions, host: string, to: string): Promise<number> {
  const read = 'openssl x509 -noout -startdate'
  const said = await deployed.sh(host, `openssl s_client ${to} </dev/null 2>/dev/null | ${read}`)
  return Date.parse(said.trim().replace('notBefore=', ''))
}

/** The new one is accepted everywhere before it is used anywhere. */
async function replaceClusterSecret(deployed: DeployedRegions): Promise<void> {
  const old = secretOf(deployed, 'cluster-secret').trim()
  const next = newSecret()
  for (const text of [`${old}\n${next}\n`, `${next}\n${old}\n`, `${next}\n`]) {
    writeSecret(deployed, 'cluster-secret', text)
    await deployed.infra('up')
    await pause(rereadMs)
  }
}

async function replaceTokens(deployed: DeployedRegions): Promise<void> {
  const old = secretOf(deployed, 'admin-token')
  for (const name of ['admin-token', 'metrics-token']) writeSecret(deployed, name, newSecret())
  await deployed.infra('up')
  await pause(rereadMs)
  for (const { code } of deployed.regions) await status(deployed, code)
  const [host] = deployed.hosts
  const api = host?.processes.find(({ role }) => role === 'api')
  const ask = `curl -s --cacert /etc/holdfast/tls/ca.pem -o /dev/null -w '%{http_code}' -H "authorization: Bearer ${old.trim()}" https://${host?.internal}:${api?.ports.admin}/admin/status`
  const code = successful('the old token', await deployed.on(host?.name ?? '', 'sh', '-c', ask)).trim()
  if (!['401', '403'].includes(code)) throw new Error(`the old admin token is answered with ${code}`)
}

/** `up` gives it to Cassandra. */
async function replaceCassandraPassword(deployed: DeployedRegions): Promise<void> {
  writeSecret(deployed, 'cassandra-password', newSecret())
  await deployed.infra('up')
  await pause(rereadMs)
  for (const { code } of deployed.regions) await status(deployed, code)
}

async function replaceNatsPasswords(deployed: DeployedRegions): Promise<void> {
  const begunS = Math.floor(Date.now() / 1_000)
  const old = secretOf(deployed, natsPasswords)
  const own = newSecret()
  writeSecret(deployed, 'nats-password', own)
  writeSecret(deployed, natsPasswords, old.replace(/^(HOLDFAST_PASSWORD: ).*/m, `$1"${own}"`))
  await deployed.infra('up')
  await pause(rereadMs)
  await Promise.all(
    deployed.hosts.map(async ({ name }) =>
      successful('reload', await deployed.on(name, 'systemctl', 'reload', 'holdfast-nats')),
    ),
  )
  // A reload that changes nothing ends well, too: open connections stay, later ones would not.
  for (const { name } of deployed.hosts)
    await deployed.sh(name, `! journalctl -u holdfast-nats --since @${begunS} | grep 'Failed to reload'`)
  await until('every process has NATS', async () => {
    for (const { code } of deployed.regions) await status(deployed, code)
    return true
  })
}

/** Where the operator keeps it: `up` copies it to the hosts. */
function secretOf(deployed: DeployedRegions, name: string): string {
  return readFileSync(join(deployed.layout.folder, 'secrets', name), 'utf8')
}

function writeSecret(deployed: DeployedRegions, name: string, text: string): void {
  writeFileSync(join(deployed.layout.folder, 'secrets', name), text, { mode: 0o600 })
}

function newSecret(): string {
  return randomBytes(24).toString('base64url')
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now()
  await work()
  return performance.now() - startedMs
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0)
}
