/** "A stolen host" of `infra/OPERATING.md`: after it, what the host has opens nothing. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startHosts } from '../../../infra/namespaces/namespaces.ts'
import type { PlannedHost } from '../../../infra/regions/plan.ts'
import { natsPasswords, natsPasswordsText } from '../../../infra/regions/render/nats.ts'
import { areSame, areUp, cql, repairAll } from './cassandra-drills.ts'
import { type DeployedRegions, successful } from './deployed.ts'
import { allOpen, doorsOf, isCutOff, noneOpens, refuseSecrets } from './doors.ts'
import { repeatedUp, status, until, uploaded, works } from './drills.ts'
import {
  newSecret,
  replaceCassandraPassword,
  replaceClusterSecret,
  replaceTokens,
  writeSecret,
} from './replacements.ts'
import { replaceAuthority } from './trust-drills.ts'
import { lineOf, underLoad } from './under-load.ts'

const stolen = 'par2'
const asker = 'par1'
const region = 'eu-par'

/** The new host has another name and address, and the rack and roles of the stolen one. */
const next = {
  name: 'par5',
  internal: '10.1.0.15',
  address: '192.0.2.15',
  address6: '2001:db8:1::5',
}
/** Of another host: the files of the stolen one. Who has them may call from anywhere. */
const copies = { tls: '/root/stolen/tls', secrets: '/root/stolen/secrets' }

export async function* stolenHost(deployed: DeployedRegions): AsyncIterable<string> {
  const kept = await uploaded(deployed, region)
  await until('replication is full', async () => (await status(deployed, region)).replication.full)
  const host = deployed.hosts.find(({ name }) => name === stolen)
  const node = host?.processes.find(({ role }) => role === 'storage-node')?.name
  if (host === undefined || node === undefined) throw new Error(`${stolen} has no storage node`)
  const others = deployed.hosts.filter(({ name }) => name !== stolen)
  const doors = doorsOf(others)
  await allOpen(deployed, stolen, doors)
  await copyFiles(deployed)

  yield lineOf(
    `${stolen} cut off, out`,
    await underLoad(deployed, () => cutOff(deployed, { host, node }), { failuresMax: lostMax }),
  )
  await isCutOff(deployed, stolen, others)
  let commands = 0
  const joined = await underLoad(deployed, async () => {
    replaceLines(deployed)
    rmSync(join(deployed.layout.folder, 'ca', stolen), { recursive: true })
    const { layout, file } = deployed
    const wanted = deployed.hosts.filter(({ name }) => name === next.name)
    await startHosts(layout, { file, wanted })
    await deployed.sh(next.name, `ip route add blackhole ${host.internal}`)
    commands = await repeatedUp(deployed, '--only', next.name)
    await areUp(deployed)
    await repairAll(deployed, region)
    await deployed.infra('up')
  })
  await isCutOff(
    deployed,
    stolen,
    deployed.hosts.filter((one) => one.region === region),
  )
  await areSame(deployed, next.name)
  await works(deployed, kept)
  yield lineOf(`${next.name} in its place`, `${joined}; commands: ${commands}`)

  yield lineOf(
    'passwords of NATS',
    await underLoad(deployed, () => replaceNatsPasswords(deployed), { failuresMax: apartMax }),
  )
  yield lineOf('password of Cassandra', await underLoad(deployed, () => replaceCassandraPassword(deployed)))
  const operator = newSecret()
  const alter = `ALTER ROLE cassandra WITH PASSWORD = '${operator}'`
  const [, roles] = await cql(deployed, alter, 'LIST ROLES')
  writeSecret(deployed, 'cassandra-admin-password', operator)
  const named = (roles as { role: string }[]).map(({ role }) => role).sort()
  if (named.join() !== 'cassandra,holdfast') throw new Error(`Cassandra has the roles ${named.join(', ')}`)
  yield lineOf('cluster-secret', await underLoad(deployed, () => replaceClusterSecret(deployed)))
  yield lineOf('admin and metrics token', await underLoad(deployed, () => replaceTokens(deployed)))
  yield* replaceAuthority(deployed)
  yield lineOf('restart of every unit', await underLoad(deployed, () => restartAll(deployed)))
  await works(deployed, kept)

  for (const { name } of deployed.hosts) await deployed.sh(name, `ip route del blackhole ${host.internal}`)
  const near = doorsOf(deployed.hosts.filter((one) => one.region === region))
  await noneOpens(deployed, stolen, { doors: near })
  const all = doorsOf(deployed.hosts)
  await allOpen(deployed, asker, all)
  await noneOpens(deployed, asker, { doors: all, files: copies })
  const secrets = await refuseSecrets(deployed, asker, { doors: all, secrets: copies.secrets })
  // Its own servers and processes still run, and call.
  await areUp(deployed)
  for (const { code } of deployed.regions) {
    const { nodes } = await status(deployed, code)
    if (nodes.some(({ id }) => id === node)) throw new Error(`${code} hears ${node}`)
  }
  await works(deployed, kept)
  yield lineOf(
    `${stolen} calls again`,
    `its files open none of ${all.length} doors; with a new certificate each earlier secret is refused (${secrets} logins and calls)`,
  )
}

async function copyFiles(deployed: DeployedRegions): Promise<void> {
  const packed = await deployed.sh(stolen, 'tar -czC /etc/holdfast tls secrets | base64 -w 0')
  await deployed.sh(asker, `mkdir -p /root/stolen && echo ${packed} | base64 -d | tar -xzC /root/stolen`)
}

/** Requests that are on their way to it fail, a few of a hundred. */
const lostMax = 5

/** The same while regions do not reach each other. */
const apartMax = 1

/** Step 1. Its storage node is removed once it is silent, and its Cassandra once it is `DN`. */
async function cutOff(
  deployed: DeployedRegions,
  { host, node }: { host: PlannedHost; node: string },
): Promise<void> {
  for (const { name } of deployed.hosts)
    if (name !== stolen) await deployed.sh(name, `ip route add blackhole ${host.internal}`)
  // As its addresses leave the DNS, and its provider routes them no longer.
  for (const { code } of deployed.regions) {
    await deployed.sh(`client-${code}`, `ip route add blackhole ${host.address}`)
    const names = join(deployed.layout.folder, `client-${code}`)
    const lines = readFileSync(names, 'utf8').split('\n')
    writeFileSync(names, lines.filter((line) => !line.startsWith(`${host.address} `)).join('\n'))
  }
  await until(`${node} is silent`, async () => {
    const { silent } = await status(deployed, region)
    return silent.some(({ id }) => id === node)
  })
  await deployed.ctl(region, 'node', 'remove', node)
  const id = await downId(deployed, host)
  successful('removenode', await deployed.on('par1', 'nodetool', 'removenode', id))
}

/** In the file. */
function replaceLines(deployed: DeployedRegions): void {
  deployed.edit(({ regions }) => {
    for (const one of regions)
      one.hosts = one.hosts.map((host) => (host.name === stolen ? { ...host, ...next } : host))
  })
}

/** Both, which needs a restart: regions do not reach each other until all servers have it. */
async function replaceNatsPasswords(deployed: DeployedRegions): Promise<void> {
  const own = newSecret()
  writeSecret(deployed, 'nats-password', own)
  writeSecret(deployed, natsPasswords, natsPasswordsText({ own, system: newSecret() }))
  await deployed.infra('up')
  for (const { name, roles } of deployed.hosts)
    if (roles.includes('nats')) await deployed.sh(name, 'systemctl restart holdfast-nats')
  for (const { code } of deployed.regions)
    await until(`${code} hears all regions`, async () =>
      (await status(deployed, code)).regions.every(({ actorHosts }) => actorHosts > 0),
    )
}

/** The id of its node of Cassandra, once the others miss it. */
async function downId(deployed: DeployedRegions, { internal }: PlannedHost): Promise<string> {
  let id = ''
  await until(`${internal} is DN`, async () => {
    const said = await deployed.sh('par1', 'nodetool status')
    id = new RegExp(`^DN +${internal} .* ([0-9a-f-]{36}) `, 'm').exec(said)?.[1] ?? ''
    return id !== ''
  })
  return id
}

/** Each unit, one at a time. */
async function restartAll(deployed: DeployedRegions): Promise<void> {
  for (const { name, roles, processes } of deployed.hosts) {
    const servers = {
      nats: 'holdfast-nats',
      cassandra: 'holdfast-cassandra',
      proxy: 'caddy',
      prometheus: 'prometheus',
      alertmanager: 'prometheus-alertmanager',
    } as const
    for (const role of Object.keys(servers) as (keyof typeof servers)[]) {
      if (!roles.includes(role)) continue
      await deployed.sh(name, `systemctl restart ${servers[role]}`)
      if (role === 'cassandra') await areUp(deployed)
    }
    for (const { name: unit, ports } of processes) {
      await deployed.sh(name, `systemctl restart holdfast-${unit}`)
      const ready = 'curl -sf -o /dev/null --cacert /etc/holdfast/tls/ca.pem'
      const { internal } = deployed.hosts.find((one) => one.name === name) as PlannedHost
      await until(`${unit} is ready`, async () => {
        await deployed.sh(name, `${ready} https://${internal}:${ports.admin}/readyz`)
        return true
      })
    }
  }
}
