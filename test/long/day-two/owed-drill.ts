/**
 * A file is damaged on both nodes of its region before the other region has it: the fault for
 * HoldfastReplicationOwed, over a real Prometheus.
 */
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { shortenedTimes } from '../../../infra/observe/times.ts'
import { send } from '../../acceptance/http.ts'
import { multipart } from '../../acceptance/multipart.ts'
import { sleep } from '../../acceptance/world.ts'
import { arrive } from '../../cluster/faults/people.ts'
import { Prometheus } from '../observed/prometheus.ts'
import type { Drill } from './drill.ts'
import { type Office, seconds } from './office.ts'

const alert = 'HoldfastReplicationOwed'
/** It does not fire by itself. */
const quietMs = 15_000
/** Larger than what is sent with the request for a copy. */
const content = Buffer.from('bytes that rot twice '.repeat(30_000))

export const owedDrill: Drill & { alert: string } = {
  alert,
  name: 'a file is damaged on every node that has it: the alert for copies that are owed',
  changesCluster: true,
  async run(office) {
    const { home, other, cluster } = office
    const sources = office.namesOf('storage-node', home)
    const followers = office.namesOf('storage-node', other)
    const targets = [home, other].flatMap(({ processes }) =>
      processes.flatMap(({ name: process, role, admin }) =>
        role === 'storage-node' ? [{ process, role, address: new URL(admin ?? '').host }] : [],
      ),
    )
    const prometheus = await Prometheus.start(targets, shortenedTimes({ times: 1, windowSeconds: 20 }))
    try {
      await sleep(quietMs)
      if ((await prometheus.firedWithin(60)).has(alert)) throw new Error(`${alert} fires without a fault`)
      for (const name of followers) process.kill(await cluster.pidOf(name), 'SIGSTOP')
      await upload(office)
      for (const name of sources) rot(join(cluster.dataDir, name))
      const beganMs = performance.now()
      for (const name of followers) process.kill(await cluster.pidOf(name), 'SIGCONT')
      await office.until(`${alert} fires`, async () => (await prometheus.firing()).has(alert))
      const fired = performance.now() - beganMs
      const { says } = (await office.status()).replication
      if (!/placement groups lack copies/.test(says)) throw new Error(`ctl status says: ${says}`)
      return [`${alert} fired after ${seconds(fired)}; ctl status: ${says}`]
    } finally {
      await prometheus.stop()
    }
  },
}

async function upload({ home }: Office): Promise<void> {
  const { token, root } = await arrive(home)
  const form = multipart([
    { name: 'folderId', value: root },
    { name: 'file', filename: 'rots.bin', content },
  ])
  const { code, body } = await send(`${home.upload}/uploadfile`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': form.contentType },
    body: form.body,
  })
  if (code !== 200) throw new Error(`an upload was answered with ${code} ${body}`)
}

/** Flips a bit of the file. */
function rot(nodeDir: string): void {
  const extents = join(nodeDir, 'blobs', 'extents')
  for (const name of readdirSync(extents)) {
    const path = join(extents, name)
    const at = readFileSync(path).indexOf(content.subarray(0, 4_096))
    if (at < 0) continue
    const file = openSync(path, 'r+')
    writeSync(file, Buffer.from([(content[0] as number) ^ 1]), 0, 1, at)
    closeSync(file)
    return
  }
  throw new Error(`the file is not on the disk of ${nodeDir}`)
}
