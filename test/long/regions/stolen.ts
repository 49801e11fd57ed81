/** "A stolen host" of `infra/OPERATING.md`: after it, what the host has opens nothing. */
import type { PlannedHost } from '../../../infra/regions/plan.ts'
import { natsPasswords, natsPasswordsText } from '../../../infra/regions/render/nats.ts'
import { serverPorts } from '../../../infra/regions/roles.ts'
import { appendHost, areUp, cql, takeOut } from './cassandra-drills.ts'
import { type DeployedRegions, successful } from './deployed.ts'
import { status, until, uploaded, works } from './drills.ts'
import {
  newSecret,
  replaceCassandraPassword,
  replaceClusterSecret,
  replaceTokens,
  writeSecret,
} from './replacements.ts'
import type { Door } from './stolen-files.ts'
import { replaceAuthority } from './trust-drills.ts'
import { lineOf, underLoad } from './under-load.ts'

const stolen = 'par2'
const region = 'eu-par'

export async function* stolenHost(deployed: DeployedRegions): AsyncIterable<string> {
  // The region has three nodes of Cassandra for three replicas, each in a rack of its own.
  yield* appendHost(deployed, {
    name: 'par5',
    internal: '10.1.0.15',
    address: '192.0.2.15',
    address6: '2001:db8:1::5',
    rack: 'r2',
    roles: ['nats', 'cassandra', 'actor-host', 'storage-node', 'upload', 'api', 'proxy'],
  })
  const kept = await uploaded(deployed, region)
  await until('replication is full', async () => (await status(deployed, region)).replication.full)
  const host = deployed.hosts.find(({ name }) => name === stolen)
  const node = host?.processes.find(({ role }) => role === 'storage-node')?.name
  if (host === undefined || node === undefined) throw new Error(`${stolen} has no storage node`)
  const others = deployed.hosts.filter(({ name }) => name !== stolen)

  const doors = doorsOf(others)
  const opened = await openedBy(deployed, stolen, doors)
  if (opened.length < doors.length)
    throw new Error(`only ${opened.length} of ${doors.length} doors open before: ${opened.join(', ')}`)

  const cutOff = async () => {
    for (const { name } of others) await deployed.sh(name, `ip route add blackhole ${host.internal}`)
    await deployed.ctl(region, 'node', 'remove', node)
    successful(
      'removenode',
      await deployed.on('par1', 'nodetool', 'removenode', await downId(deployed, host)),
    )
    takeOut(deployed, stolen)
    await deployed.infra('up')
    await areUp(deployed)
  }
  // Users' names lead to its proxy until it is out of the DNS.
  yield lineOf(`${stolen} cut off, out`, await underLoad(deployed, cutOff, { failuresMax: 100 }))

  yield lineOf(
    'passwords of NATS',
    await underLoad(deployed, () => replaceNatsPasswords(deployed), { failuresMax: 5 }),
  )
  yield lineOf('password of Cassandra', await underLoad(deployed, () => replaceCassandraPassword(deployed)))
  const operator = newSecret()
  await cql(deployed, `ALTER ROLE cassandra WITH PASSWORD = '${operator}'`)
  writeSecret(deployed, 'cassandra-admin-password', operator)
  yield lineOf('cluster-secret', await underLoad(deployed, () => replaceClusterSecret(deployed)))
  yield lineOf('admin and metrics token', await underLoad(deployed, () => replaceTokens(deployed)))
  yield* replaceAuthority(deployed)
  yield lineOf('restart of every unit', await underLoad(deployed, () => restartAll(deployed)))
  await works(deployed, kept)

  for (const { name } of others) await deployed.sh(name, `ip route del blackhole ${host.internal}`)
  const still = await openedBy(deployed, stolen, doors)
  if (still.length > 0) throw new Error(`${stolen} still opens ${still.join(', ')}`)
  const own = await openedBy(deployed, 'par1', doors)
  if (own.length < doors.length) throw new Error(`par1 opens only ${own.join(', ')}`)
  yield lineOf(
    `${stolen} calls again`,
    `its files open none of ${doors.length} doors, all of which they opened before`,
  )
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
    const servers = { nats: 'holdfast-nats', cassandra: 'holdfast-cassandra', proxy: 'caddy' } as const
    for (const role of ['nats', 'cassandra', 'proxy'] as const) {
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

function doorsOf(hosts: readonly PlannedHost[]): Door[] {
  return hosts.flatMap(({ internal, region, roles, processes }) => {
    const at = { host: internal, region, grpc: false }
    const { nats, cassandra } = serverPorts
    const login = (kind: 'nats' | 'cassandra', user: string): Door => ({
      ...at,
      kind,
      port: kind === 'nats' ? nats.client : cassandra.client,
      own: [user],
    })
    const shows = (port: number | undefined, ...own: string[]): Door[] =>
      port === undefined ? [] : [{ ...at, kind: 'certificate', port, own }]
    return [
      ...(roles.includes('nats') ? [login('nats', 'holdfast'), login('nats', 'system')] : []),
      ...(roles.includes('cassandra')
        ? [
            login('cassandra', 'holdfast'),
            login('cassandra', 'cassandra'),
            ...shows(cassandra.storage, 'internode.pem'),
          ]
        : []),
      ...processes.flatMap(({ role, ports }): Door[] => [
        { ...at, kind: 'admin', port: ports.admin ?? 0, own: [] },
        ...shows(ports.api, 'proxy.pem', 'proxy.key'),
        ...shows(ports.upload, 'proxy.pem', 'proxy.key'),
        ...(role === 'storage-node'
          ? [
              ...shows(ports.bytes, 'node.pem', 'node.key'),
              ...shows(ports.control, 'node.pem', 'node.key').map((door) => ({ ...door, grpc: true })),
            ]
          : []),
      ]),
    ]
  })
}

/** Which of the doors the files of a host open, in words. */
async function openedBy(deployed: DeployedRegions, host: string, doors: readonly Door[]): Promise<string[]> {
  const said = await deployed.on(
    host,
    ...['env', '-C', '/opt/holdfast', 'infra/launch.sh'],
    ...['test/long/regions/stolen-files.ts', JSON.stringify(doors)],
  )
  const answers = successful(`the files of ${host}`, said).trim().split('\n')
  return doors
    .filter((_, at) => answers[at] === 'true')
    .map(({ kind, host: to, port, own }) => `${kind} ${to}:${port} ${own.join(' ')}`)
}
