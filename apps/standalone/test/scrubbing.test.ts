/**
 * Damage on the disk of a standalone service: found by itself, reported to the operator, and
 * repaired by an upload of the same content.
 */

import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { call, dataDir, startHere, uploadText } from './run.ts'

const text = 'a text that rots '.repeat(300)

/** Flips a bit of it on the disk. */
function rot(dir: string): void {
  const extents = join(dir, 'blobs', 'extents')
  for (const name of readdirSync(extents)) {
    const file = readFileSync(join(extents, name))
    const at = file.indexOf(text)
    if (at < 0) continue
    const descriptor = openSync(join(extents, name), 'r+')
    writeSync(descriptor, Buffer.from([(file[at] as number) ^ 1]), 0, 1, at)
    closeSync(descriptor)
    return
  }
  throw new Error('the text is not on the disk')
}

t.test('a damaged file is found, counted and kept, and an upload of its content repairs it', async (t) => {
  const dir = dataDir(t)
  const first = await startHere(dir, { HOLDFAST_SCRUB_SECONDS: '1' })
  const { data: file } = await uploadText(first.addresses.upload, { name: 'rots.txt', text })
  const headers = { authorization: `Bearer ${file.guestToken}` }
  await first.close()
  rot(dir)
  const service = await startHere(dir, { HOLDFAST_SCRUB_SECONDS: '1' })
  t.teardown(() => service.close())
  const { api, upload, admin } = service.addresses
  const status = async () => (await call(`${admin}/admin/status`)).data.scrubbing
  const statusWhere = async (holds: (scrubbing: Awaited<ReturnType<typeof status>>) => boolean) => {
    let scrubbing = await status()
    await until(async () => {
      scrubbing = await status()
      return holds(scrubbing)
    })
    return scrubbing
  }
  const found = await statusWhere(({ damagedNow }) => damagedNow === 1)
  t.match(found, { replaced: 0, sinceStart: { damaged: 1, repaired: 0, unreadable: 0 } })
  const metrics = async () => (await fetch(`${admin}/metrics`)).text()
  t.match(await metrics(), /holdfast_store_damaged_blobs 1\n/)

  const link = await call(`${api}/contents/${file.id}/directlinks`, { method: 'POST', headers })
  t.equal(link.status, 'ok')
  const again = await uploadText(upload, { name: 'again.txt', text })
  t.equal(again.status, 'ok')
  t.equal(await (await fetch(link.data.directLink)).text(), text, 'the first file')
  // A pass that began before the second upload ends without a file that it could verify.
  const healed = await statusWhere(
    ({ lastFullPass, sinceStart }) => lastFullPass > found.lastFullPass && sinceStart.verifiedBytes > 0,
  )
  t.match(healed, { damagedNow: 0, replaced: 1 })
  const figures = await metrics()
  t.match(figures, /holdfast_store_damaged_blobs 0\n/)
  t.match(figures, /holdfast_store_replaced_blobs_total 1\n/)
  t.match(figures, /holdfast_scrub_last_pass_timestamp_seconds [1-9]/)
  t.match(figures, /holdfast_scrub_verified_bytes_total [1-9]/)
})

t.test('a rate of 0 turns it off', async (t) => {
  const service = await startHere(dataDir(t), { HOLDFAST_SCRUB_RATE: '0', HOLDFAST_SCRUB_SECONDS: '1' })
  t.teardown(() => service.close())
  await uploadText(service.addresses.upload, { name: 'a.txt', text })
  const { data } = await call(`${service.addresses.admin}/admin/status`)
  t.match(data.scrubbing, { lastFullPass: 'not yet', pass: 'rests', sinceStart: { verified: 0 } })
})
