/** "A host is rebooted" of `infra/OPERATING.md`. */
import { cutPower, startHosts, viaOf } from '../../../infra/namespaces/namespaces.ts'
import { areUp } from './cassandra-drills.ts'
import type { DeployedRegions } from './deployed.ts'
import { status, until, uploaded, works } from './drills.ts'
import { lineOf, underLoad } from './under-load.ts'

const host = 'par2'
const region = 'eu-par'

/** With all its roles, while the others of the region serve. */
export async function* rebootHost(deployed: DeployedRegions): AsyncIterable<string> {
  const { layout, file } = deployed
  const wanted = deployed.hosts.filter(({ name }) => name === host)
  const kept = await uploaded(deployed, region)
  await areFull(deployed)
  const figures = await underLoad(deployed, async () => {
    await deployed.infraBy(viaOf(layout), 'down', '--only', host)
    await cutPower(layout, wanted)
    await startHosts(layout, { file, wanted })
    // A host in namespaces starts no further than `basic.target`. Of what a machine starts then,
    // these are the deployment's.
    await deployed.sh(
      host,
      `cd /etc/systemd/system/multi-user.target.wants && systemctl start $(ls | grep -E '^(holdfast|caddy|prometheus)')`,
    )
    await until(`everything on ${host} runs`, async () => {
      await deployed.infra('status', '--only', host)
      return true
    })
    await areUp(deployed)
    await areFull(deployed)
  })
  await works(deployed, kept)
  yield lineOf(`${host} rebooted`, figures)
}

async function areFull(deployed: DeployedRegions): Promise<void> {
  await until('replication is full', async () => (await status(deployed, region)).replication.full)
}
