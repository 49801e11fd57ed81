/** Tables that change, and nodes that are repaired or replaced. */
import { CassandraMetadataStore } from '@holdfast/journal-cassandra'
import { plainConnection, plainStore } from '@holdfast/journal-cassandra/testing'
import { migrations } from '../../../libs/journal-cassandra/src/migrations.ts'
import type { Drill } from './drill.ts'
import { type Office, seconds } from './office.ts'
import { differences, replaceOnlyNode } from './replaced-cassandra.ts'
import { underLoad } from './users.ts'

/** Users wait while a node is replaced that is the only one. */
const insistForMs = 240_000

export const cassandraDrills: readonly Drill[] = [
  {
    name: 'a new version changes the tables',
    async run(office, seed) {
      let tookMs = 0
      let keyspaces: string[] = []
      const users = await underLoad(office, { seed }, async () => {
        keyspaces = await ourKeyspaces(office)
        const beganMs = performance.now()
        for (const keyspace of keyspaces) {
          const contact = (await office.cluster.cassandraAddresses()).get(office.home.code) as string
          const store = await CassandraMetadataStore.open(
            {
              ...plainConnection,
              ...plainStore,
              contactPoints: [contact],
              dataCentre: office.home.code,
              keyspace,
              replication: Object.fromEntries(office.regions.map(({ code }) => [code, 1])),
            },
            {
              migrations: [...migrations, ['ALTER TABLE journal ADD IF NOT EXISTS drilled text static']],
            },
          )
          await store.close()
        }
        tookMs = performance.now() - beganMs
        // The version of before starts on the tables of after, too: a rollback.
        for (const name of office.namesOf('actor-host', office.home)) await office.cluster.restart(name)
      })
      return [`${keyspaces.length} keyspaces changed in ${seconds(tookMs)}`, users]
    },
  },
  {
    name: 'every node of Cassandra is repaired',
    async run(office, seed) {
      const lines: string[] = []
      const users = await underLoad(office, { seed }, async () => {
        for (const { code } of office.regions) {
          const beganMs = performance.now()
          await office.cluster.nodetool(code, 'repair', '--full', '--partitioner-range')
          lines.push(`${code}: nodetool repair ${seconds(performance.now() - beganMs)}`)
        }
      })
      return [...lines, users]
    },
  },
  {
    name: 'the only node of Cassandra of a region is replaced',
    changesCluster: true,
    async run(office, seed) {
      const { cluster, home, other } = office
      const lines: string[] = []
      let ofHome = ''
      const ofOther = await underLoad(office, { seed, regions: [other] }, async () => {
        ofHome = await underLoad(office, { seed: seed + 1, regions: [home], insistForMs }, async () => {
          const beganMs = performance.now()
          await replaceOnlyNode(office)
          const joinedMs = performance.now()
          const lacking = await differences(office)
          const repairMs = performance.now()
          await cluster.nodetool(home.code, 'repair', '--full')
          const took = [joinedMs - beganMs, performance.now() - repairMs].map(seconds)
          lines.push(`its place was taken after ${took[0]}, repaired after another ${took[1]}`)
          lines.push(`rows that differed before the repair: ${lacking.join('; ') || 'none'}`)
        })
      })
      const nodes = await cluster.nodetool(other.code, 'status')
      const states = [...nodes.matchAll(/^([UD][NLJM]) /gm)].map(([, state]) => state)
      if (states.join() !== 'UN,UN') throw new Error(`nodes of Cassandra are ${states.join()}`)
      const differing = await differences(office)
      if (differing.length > 0) throw new Error(`the data centres differ: ${differing.join('; ')}`)
      return [...lines, `${home.code}: ${ofHome}`, `${other.code}: ${ofOther}`]
    },
  },
]

async function ourKeyspaces({ cluster, home }: Office): Promise<string[]> {
  const said = await cluster.nodetool(home.code, 'tablestats')
  return [...said.matchAll(/^Keyspace\s*: (holdfast\S*)/gm)].map(([, name]) => name as string)
}
