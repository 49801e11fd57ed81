/** Changes of all processes, and of the tables below them, while users work. */
import type { Drill } from './drill.ts'
import { type Office, seconds } from './office.ts'
import { underLoad } from './users.ts'

/** The order of "A new release on a cluster". */
const order = ['storage-node', 'actor-host', 'upload', 'api']

export const rollingDrills: readonly Drill[] = [
  {
    name: 'a rolling restart of every process',
    async run(office, seed) {
      const took: DrillTime[] = []
      const users = await underLoad(office, { seed }, async () => {
        for (const name of inOrder(office))
          took.push(await changed(office, name, () => office.cluster.restart(name)))
      })
      return [inWords(took), users]
    },
  },
  {
    name: 'a rolling upgrade from an earlier release, and one process back',
    beginsEarlier: true,
    async run(office, seed) {
      const took: DrillTime[] = []
      const back: DrillTime[] = []
      const users = await underLoad(office, { seed }, async () => {
        for (const name of inOrder(office))
          took.push(await changed(office, name, () => office.startOurs(name)))
        for (const role of order) {
          const [name = ''] = office.namesOf(role, office.home)
          back.push(await changed(office, name, () => office.endOurs(name)))
        }
      })
      return [`upgraded: ${inWords(took)}`, `back: ${inWords(back)}`, users]
    },
  },
]

interface DrillTime {
  name: string
  ms: number
}

function inOrder(office: Office): string[] {
  return office.regions.flatMap((region) => order.flatMap((role) => office.namesOf(role, region)))
}

async function changed(office: Office, name: string, change: () => Promise<void>): Promise<DrillTime> {
  const beganMs = performance.now()
  await change()
  await office.until(`${name} serves and every copy is there`, async () => {
    const { nodes, replication } = await office.status()
    return replication.full && nodes.some(({ id, ready }) => id === name && ready)
  })
  return { name, ms: performance.now() - beganMs }
}

function inWords(took: readonly DrillTime[]): string {
  const all = took.reduce((sum, { ms }) => sum + ms, 0)
  const slowest = took.reduce((one, other) => (other.ms > one.ms ? other : one))
  return `${took.length} processes in ${seconds(all)}, each ${seconds(all / took.length)}, ${slowest.name} ${seconds(slowest.ms)}`
}
