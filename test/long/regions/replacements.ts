/** "Certificates and secrets" of `infra/OPERATING.md`: each of them is replaced. */
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { natsPasswords } from '../../../infra/regions/render/nats.ts'
import { type HostRole, serverPorts } from '../../../infra/regions/roles.ts'
import { type DeployedRegions, successful } from './deployed.ts'
import { status, until } from './drills.ts'
import { pause } from './under-load.ts'

/** Processes read files again every 5 s. */
const rereadMs = 11_000

export async function replaceCertificates(deployed: DeployedRegions): Promise<void> {
  const begunS = Math.floor(Date.now() / 1_000)
  await deployed.certs('renew', '--within', '36500')
  await deployed.infra('up')
  await reread(deployed)
  await areIssued(deployed, begunS)
  await areShown(deployed, begunS)
}

/** Users see new certificates. */
export async function areShown(deployed: DeployedRegions, sinceS: number): Promise<void> {
  for (const { code, names } of deployed.regions)
    for (const name of [names.api, names.upload, names.download]) {
      const shown = await shownTo(deployed, code, name)
      if (shown < sinceS * 1_000) throw new Error(`${name} still shows its old certificate`)
    }
}

/** Servers read their files again on a reload; processes do so by themselves, within 5 s. */
export async function reread(deployed: DeployedRegions): Promise<void> {
  await Promise.all(
    deployed.hosts.map(({ name, roles }) =>
      deployed.sh(name, roles.flatMap((role) => rereads[role] ?? []).join(' && ')),
    ),
  )
  await pause(rereadMs)
}

const rereads: Partial<Record<HostRole, string>> = {
  nats: 'systemctl reload holdfast-nats',
  cassandra: 'nodetool reloadssl',
  proxy: 'systemctl reload caddy',
  alertmanager: 'systemctl restart prometheus-alertmanager',
}

/** Processes have new certificates, and so have the servers that keep what they have loaded. */
export async function areIssued(deployed: DeployedRegions, sinceS: number): Promise<void> {
  await until('every process has its new certificate', async () =>
    (await issuedTimes(deployed)).every((seconds) => seconds >= sinceS),
  )
  const { cassandra, proxyMetrics, alertmanager } = serverPorts
  const ports: Partial<Record<HostRole, number[]>> = {
    cassandra: [cassandra.client, cassandra.storage],
    proxy: [proxyMetrics],
    alertmanager: [alertmanager],
  }
  for (const { name, internal, roles } of deployed.hosts)
    for (const port of roles.flatMap((role) => ports[role] ?? [])) {
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
export async function replaceClusterSecret(deployed: DeployedRegions): Promise<void> {
  const old = secretOf(deployed, 'cluster-secret').trim()
  const next = newSecret()
  for (const text of [`${old}\n${next}\n`, `${next}\n${old}\n`, `${next}\n`]) {
    writeSecret(deployed, 'cluster-secret', text)
    await deployed.infra('up')
    await pause(rereadMs)
  }
}

export async function replaceTokens(deployed: DeployedRegions): Promise<void> {
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
export async function replaceCassandraPassword(deployed: DeployedRegions): Promise<void> {
  writeSecret(deployed, 'cassandra-password', newSecret())
  await deployed.infra('up')
  await pause(rereadMs)
  for (const { code } of deployed.regions) await status(deployed, code)
}

export async function replaceNatsPasswords(deployed: DeployedRegions): Promise<void> {
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
export function secretOf(deployed: DeployedRegions, name: string): string {
  return readFileSync(join(deployed.layout.folder, 'secrets', name), 'utf8')
}

export function writeSecret(deployed: DeployedRegions, name: string, text: string): void {
  writeFileSync(join(deployed.layout.folder, 'secrets', name), text, { mode: 0o600 })
}

export function newSecret(): string {
  return randomBytes(24).toString('base64url')
}
