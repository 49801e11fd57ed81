/** Storage nodes that come, go and lose their disks. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Drill } from './drill.ts'
import { gbPerMinute, type Office, seconds } from './office.ts'
import { underLoad } from './users.ts'

/** About 400 MB. */
const filled = { files: 50, bytesEach: 8 * 1024 * 1024 }

export const storageDrills: readonly Drill[] = [
  {
    name: 'a storage node’s disk is replaced by an empty one',
    run: rebuilt,
  },
  {
    name: 'a storage node is added, another one drained and removed',
    changesCluster: true,
    async run(office, seed) {
      const [leaving = '', staying = ''] = office.namesOf('storage-node', office.home)
      const coming = `${office.home.code}-storage-3`
      await office.fill(filled)
      const lines: string[] = []
      const users = await underLoad(office, { seed }, async () => {
        const addedMs = performance.now()
        const admin = await office.addStorageNode(coming, leaving)
        await office.until('it holds copies', async () => (await office.groupsOf(coming)) > 0)
        await office.until('it has all of them', () => office.isFull())
        // What is there stays where it is: a new node is in new groups.
        lines.push(
          `added: in ${await office.groupsOf(coming)} placement groups after ${seconds(performance.now() - addedMs)}`,
        )
        const before = await office.storeOf(admin)
        const kept = await office.storeOf(staying)
        const drainedMs = performance.now()
        await office.ctl('node', 'drain', leaving)
        await office.until(
          'it is in no group',
          async () => (await office.groupsOf(leaving)) === 0 && (await office.isFull()),
        )
        const tookMs = performance.now() - drainedMs
        const after = await office.storeOf(admin)
        const keeps = await office.storeOf(staying)
        const gained = (of: 'blobs' | 'liveBytes') => after[of] - before[of] + keeps[of] - kept[of]
        lines.push(moved('drained', { blobs: gained('blobs'), liveBytes: gained('liveBytes') }, tookMs))
        process.kill(await office.cluster.pidOf(leaving), 'SIGTERM')
        await office.until('it is gone', async () => {
          const { nodes } = await office.status()
          return !nodes.some(({ id }) => id === leaving)
        })
        await office.ctl('node', 'remove', leaving)
      })
      return [...lines, users]
    },
  },
]

async function rebuilt(office: Office, seed: number): Promise<string[]> {
  const [lost = ''] = office.namesOf('storage-node', office.home)
  await office.fill(filled)
  const lines: string[] = []
  const users = await underLoad(office, { seed }, async () => {
    const had = await office.storeOf(lost)
    process.kill(await office.cluster.pidOf(lost), 'SIGKILL')
    rmSync(join(office.cluster.dataDir, lost, 'blobs'), { recursive: true, force: true, maxRetries: 5 })
    const startedMs = performance.now()
    await office.cluster.restart(lost)
    await office.until(
      'it has what the node had',
      async () => (await office.storeOf(lost)).blobs >= had.blobs && (await office.isFull()),
    )
    lines.push(moved('rebuilt', await office.storeOf(lost), performance.now() - startedMs))
  })
  return [...lines, users]
}

function moved(what: string, { blobs, liveBytes }: { blobs: number; liveBytes: number }, ms: number): string {
  return `${what}: ${blobs} blobs, ${Math.round(liveBytes / 2 ** 20)} MB in ${seconds(ms)}, ${gbPerMinute(liveBytes, ms)}`
}
