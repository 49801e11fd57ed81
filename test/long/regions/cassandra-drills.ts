/** "Nodes of Cassandra" of `infra/OPERATING.md`: more replicas, one more node, one less. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { viaOf } from '../../../infra/namespaces/namespaces.ts'
import type { PlannedHost } from '../../../infra/regions/plan.ts'
import { serverPorts } from '../../../infra/regions/roles.ts'
import { type DeployedRegions, successful } from './deployed.ts'
import { allOpen, type Door, noneOpens } from './doors.ts'
import { repeatedUp, seconds, until, uploaded, works } from './drills.ts'
import { lineOf, pause, timed, underLoad } from './under-load.ts'

const replicas = 3
const home = 'eu-par'

/**
 * From one replica of every row to three. While a row has one replica, or a quorum of two needs
 * both, restarts of their node are noticed; at the end one node of a region may be off.
 */
export async function* moreReplicas(deployed: DeployedRegions): AsyncIterable<string> {
  const kept = await uploaded(deployed, home)
  deployed.edit((written) => {
    written.replicas = replicas
  })
  let statements: string[] = []
  const tryUp = async () => {
    statements = await refusedUp(deployed)
  }
  yield lineOf(`up with ${replicas} replicas`, await underLoad(deployed, tryUp, { failuresMax: 100 }))
  if (statements.length === 0) throw new Error('up names no statement')
  yield lineOf('repair of every node', await underLoad(deployed, () => repairAll(deployed)))
  for (let count = 2; statements.length > 0; count++) {
    if (count > replicas) throw new Error(`up still names ${statements.join('; ')}`)
    const step = async () => {
      await cql(deployed, ...statements)
      await repairAll(deployed)
    }
    yield lineOf(`${count} replicas, repaired`, await underLoad(deployed, step))
    yield lineOf('up again', await underLoad(deployed, tryUp, { failuresMax: count < replicas ? 100 : 0 }))
  }
  const [rows] = await cql(deployed, 'SELECT keyspace_name, replication FROM system_schema.keyspaces')
  const few = (rows as { keyspace_name: string; replication: Record<string, string> }[])
    .filter(({ keyspace_name }) => keyspace_name.startsWith('holdfast') || keyspace_name === 'system_auth')
    .filter(({ replication: { class: _, ...by } }) =>
      Object.values(by).some((count) => Number(count) < replicas),
    )
  if (few.length > 0) throw new Error(`too few replicas: ${JSON.stringify(few)}`)
  for (const { name } of nodesOf(deployed)) await areSame(deployed, name)
  await works(deployed, kept)
  const without = async () => {
    await deployed.sh('par2', 'systemctl stop holdfast-cassandra')
    await pause(20_000)
    await works(deployed, kept)
    await deployed.sh('par2', 'systemctl start holdfast-cassandra')
    await areUp(deployed)
  }
  yield lineOf('a node off and on', await underLoad(deployed, without))
}

/** `up` that ends with 1 and names statements. @returns them; empty: it succeeded */
async function refusedUp(deployed: DeployedRegions): Promise<string[]> {
  try {
    await deployed.infra('up')
    return []
  } catch (error) {
    const named = [...(error as Error).message.matchAll(/ALTER KEYSPACE \S+ WITH replication = \{[^}]*\}/g)]
    if (named.length === 0) throw error
    return [...new Set(named.map(([statement]) => statement))]
  }
}

/** One after the other. */
export async function repairAll(deployed: DeployedRegions, region?: string): Promise<void> {
  for (const { name } of nodesOf(deployed).filter((node) => region === undefined || node.region === region))
    successful(`repair of ${name}`, await deployed.on(name, 'nodetool', 'repair', '--full'))
}

/** Resolves when the node and the others with its rows have the same ones. No users may work. */
export async function areSame(deployed: DeployedRegions, name: string): Promise<void> {
  await until(`${name} has the rows of the others`, async () => {
    const said = await deployed.sh(name, 'nodetool repair --full --preview')
    const [alike, other] = [/Previewed data was in sync/, /Total estimated streaming.*/].map((found) =>
      found.exec(said),
    )
    if (other) throw new Error(other[0])
    return alike !== null
  })
}

function nodesOf(deployed: DeployedRegions): PlannedHost[] {
  return deployed.hosts.filter(({ roles }) => roles.includes('cassandra'))
}

/** As the user `cassandra`, at a node of the first region. @returns the rows of each statement */
export async function cql(deployed: DeployedRegions, ...statements: string[]): Promise<unknown[]> {
  const [node] = nodesOf(deployed)
  if (node === undefined) throw new Error('no host has Cassandra')
  const words = [node.region, node.internal, ...statements]
  const said = await deployed.on(
    node.name,
    ...['env', '-C', '/opt/holdfast', 'infra/launch.sh', 'test/long/regions/cql.ts', ...words],
  )
  return successful(statements.join('; '), said)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
}

/** Resolves when every node of the file is UN, and no other one is known. */
export async function areUp(deployed: DeployedRegions): Promise<void> {
  const nodes = nodesOf(deployed)
  await until(`${nodes.length} nodes of Cassandra are UN`, async () => {
    for (const region of deployed.regions) {
      const [node] = nodes.filter((one) => one.region === region.code)
      const said = await deployed.sh(node?.name ?? '', 'nodetool status')
      const states = [...said.matchAll(/^([UD][NLJM]) /gm)].map(([, state]) => state)
      if (states.length !== nodes.length || states.some((state) => state !== 'UN')) throw new Error(said)
    }
    return true
  })
}

/** "A node is added": a host with Cassandra alone. */
export async function* addNode(deployed: DeployedRegions): AsyncIterable<string> {
  const host = { name: 'par4', internal: '10.1.0.14', rack: 'r1', roles: ['cassandra'] }
  const kept = await uploaded(deployed, home)
  const older = nodesOf(deployed).filter(({ region }) => region === home)
  deployed.edit(({ regions: [region] }) => {
    region?.hosts.push(host)
  })
  let [commands, cleanMs] = [0, 0]
  const figures = await underLoad(deployed, async () => {
    commands = await repeatedUp(deployed)
    await areUp(deployed)
    cleanMs = await timed(async () => {
      for (const { name } of older) successful('cleanup', await deployed.on(name, 'nodetool', 'cleanup'))
    })
  })
  await areSame(deployed, host.name)
  await works(deployed, kept)
  const more = `commands: ${commands}; all UN; nodetool cleanup ${seconds(cleanMs)}`
  yield lineOf(`${host.name} added`, `${figures}; ${more}`)
}

/** "A node is removed", with its host ("A host is taken away"). */
export async function* removeNode(deployed: DeployedRegions): AsyncIterable<string> {
  const kept = await uploaded(deployed, home)
  const [name, internal] = ['par4', '10.1.0.14']
  let leftMs = 0
  const figures = await underLoad(deployed, async () => {
    leftMs = await timed(async () => {
      successful('decommission', await deployed.on(name, 'nodetool', 'decommission'))
      await until(`no node lists ${name}`, async () => {
        const said = await Promise.all(
          nodesOf(deployed)
            .filter((one) => one.name !== name)
            .map((one) => deployed.sh(one.name, 'nodetool status')),
        )
        return said.every((text) => !text.includes(` ${internal} `))
      })
    })
    await deployed.infraBy(viaOf(deployed.layout), 'down', '--only', name)
    await deployed.sh(name, 'systemctl disable holdfast.target')
    takeOut(deployed, name)
    await deployed.infra('up')
    await areUp(deployed)
  })
  for (const { name, region } of nodesOf(deployed)) if (region === home) await areSame(deployed, name)
  await works(deployed, kept)
  yield lineOf(`${name} removed`, `${figures}; nodetool decommission ${seconds(leftMs)}`)
}

/** Its lines, out of the file. */
function takeOut(deployed: DeployedRegions, name: string): void {
  deployed.edit(({ regions }) => {
    for (const region of regions) region.hosts = region.hosts.filter((host) => host.name !== name)
  })
}

/**
 * "Cassandra's own authority". Before it, nodes show each other certificates of the deployment's,
 * as earlier releases rendered it.
 */
export async function* ownAuthority(deployed: DeployedRegions): AsyncIterable<string> {
  const nodes = nodesOf(deployed)
  const file = (...path: string[]) => join(deployed.layout.folder, 'ca', ...path)
  for (const name of ['cassandra-ca.pem', 'cassandra-ca.key']) rmSync(file(name))
  // Also of hosts that are no longer in the file.
  for (const { name } of readdirSync(file(), { withFileTypes: true }).filter((entry) => entry.isDirectory()))
    for (const own of ['cassandra-ca.pem', 'internode.pem']) rmSync(file(name, own), { force: true })
  await Promise.all(
    nodes.map(({ name }) =>
      deployed.sh(
        name,
        `cd /etc/cassandra && sed -i 's/cassandra-ca.pem/ca.pem/; s/internode.pem/cassandra.pem/' cassandra.yaml
         rm /etc/holdfast/tls/cassandra-ca.pem /etc/holdfast/tls/internode.pem
         systemctl restart holdfast-cassandra`,
      ),
    ),
  )
  await areUp(deployed)
  const doors = nodes.map(({ internal: host, region }): Door => {
    const { storage: port } = serverPorts.cassandra
    return { kind: 'certificate', grpc: false, host, port, own: ['node.pem', 'node.key'], region }
  })
  const [asker = ''] = nodes.map(({ name }) => name)
  await allOpen(deployed, asker, doors)
  const kept = await uploaded(deployed, home)
  const reread = async () => {
    for (const { name } of nodes) await deployed.sh(name, 'nodetool reloadssl')
  }
  const own = new Map<string, Buffer>()
  const figures = await underLoad(deployed, async () => {
    await deployed.issue()
    for (const { name } of nodes) {
      const [ca, second] = ['ca.pem', 'cassandra-ca.pem'].map((one) => readFileSync(file(name, one))) as [
        Buffer,
        Buffer,
      ]
      own.set(file(name, 'ca.pem'), ca).set(file(name, 'cassandra-ca.pem'), second)
      // `up` in namespaces copies the folders to the hosts.
      writeFileSync(file(name, 'ca.pem'), Buffer.concat([ca, second]))
      writeFileSync(file(name, 'cassandra-ca.pem'), Buffer.concat([second, ca]))
      for (const one of ['ca.pem', 'cassandra-ca.pem', 'internode.pem', 'cassandra.pem'])
        await copied(deployed, name, one)
    }
    await reread()
    await deployed.infra('up')
    await areUp(deployed)
    for (const [path, text] of own) writeFileSync(path, text)
    for (const { name } of nodes)
      for (const one of ['ca.pem', 'cassandra-ca.pem']) await copied(deployed, name, one)
    await reread()
    await areUp(deployed)
  })
  for (const { name, internal } of nodes) {
    const shown = `openssl s_client -connect ${internal}:7000 </dev/null 2>/dev/null | openssl x509 -noout -issuer`
    const said = await deployed.sh(name, shown)
    if (!said.includes('Cassandra')) throw new Error(`${name} shows other nodes ${said.trim()}`)
  }
  await noneOpens(deployed, asker, { doors })
  await works(deployed, kept)
  yield lineOf("Cassandra's authority", figures)
}

async function copied(deployed: DeployedRegions, host: string, name: string): Promise<void> {
  const text = readFileSync(join(deployed.layout.folder, 'ca', host, name)).toString('base64')
  const path = `/etc/holdfast/tls/${name}`
  // A new file has no owner yet: `up` gives it one.
  const users = name === 'internode.pem' ? `chown root:cassandra ${path} && chmod 640 ${path}` : 'true'
  await deployed.sh(host, `echo ${text} | base64 -d > ${path} && ${users}`)
}
