/** Changes of all processes, and of the tables below them, while users work. */
import type { Drill } from './drill.ts'
import { seconds } from './office.ts'
import { underLoad } from './users.ts'

/** The order of "A new release on a cluster". */
const order = ['storage-node', 'actor-host', 'upload', 'api']

export const rollingDrills: readonly Drill[] = [
  {
    name: 'a rolling restart of every process',
    async run(office, seed) {
      const took: { name: string; ms: number }[] = []
      const users = await underLoad(office, { seed }, async () => {
        for (const region of office.regions)
          for (const name of order.flatMap((role) => office.namesOf(role, region))) {
            const beganMs = performance.now()
            await office.cluster.restart(name)
            await office.until('it serves and every copy is there', async () => {
              const { nodes, replication } = await office.status()
              return replication.full && nodes.some(({ id, ready }) => id === name && ready)
            })
            took.push({ name, ms: performance.now() - beganMs })
          }
      })
      const all = took.reduce((sum, { ms }) => sum + ms, 0)
      const slowest = took.reduce((one, other) => (other.ms > one.ms ? other : one))
      return [
        `${took.length} processes in ${seconds(all)}, each ${seconds(all / took.length)}, ${slowest.name} ${seconds(slowest.ms)}`,
        users,
      ]
    },
  },
]
