/** A clock that is far from the newest noted time deletes nothing until the operator accepts it. */
import { join } from 'node:path'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { LevelMetadataStore } from '@holdfast/journal-level'
import t from 'tap'
import { ClockGuard } from '../src/clock-guard.ts'
import { call, dataDir, startHere, uploadText } from './run.ts'

const hour = 3_600_000
const day = 24 * hour

class HandClock {
  wallMs = 1_800_000_000_000
  passedMs = 0
  now = () => this.wallMs
  monotonic = () => this.passedMs
  pass(ms: number) {
    this.wallMs += ms
    this.passedMs += ms
  }
}

t.test('jumps in both directions are noticed, while running and over a restart', async (t) => {
  const clock = new HandClock()
  const lookups = new MemoryLookupStore()
  const open = () => ClockGuard.open({ lookups, aheadMaxMs: 7 * day, clock, log: { warn() {} } })
  const guard = await open()
  t.notOk(guard.isOff(), 'a new installation takes the clock as it is')
  clock.pass(400 * day)
  t.notOk(guard.isOff(), 'time that really passes is no jump')
  clock.wallMs += 365 * day
  t.ok(guard.isOff())
  clock.pass(hour)
  t.equal(guard.offsetMs, 365 * day, 'and it stays one')
  clock.wallMs -= 365 * day
  t.notOk(guard.isOff(), 'the clock is right again')
  clock.wallMs -= 3 * hour
  t.ok(guard.isOff())
  clock.wallMs += 3 * hour
  await guard.close()
  clock.wallMs += 6 * day
  await (await open()).close()
  clock.wallMs += 400 * day
  const later = await open()
  t.ok(later.isOff(), 'the service starts with a wrong clock')
  await later.close()
  t.ok((await open()).isOff(), 'a wrong time is not noted')
  t.equal((await later.accept()).offsetSeconds, (400 * day) / 1000)
  t.notOk((await open()).isOff())
})

t.test('what is due stays until the clock is accepted', async (t) => {
  const dir = dataDir(t)
  const settings = { HOLDFAST_EXPIRY_SWEEP_SECONDS: '0.05' }
  const first = await startHere(dir, settings)
  const { data: file } = await uploadText(first.addresses.upload, { name: 'a.txt', text: 'a text' })
  const headers = { authorization: `Bearer ${file.guestToken}`, 'content-type': 'application/json' }
  const expiry = Math.floor(Date.now() / 1000) + 1
  const updated = await call(`${first.addresses.api}/contents/${file.parentFolder}/update`, {
    method: 'PUT',
    headers,
    body: JSON.stringify({ attribute: 'expiry', attributeValue: expiry, deleteAfterExpiry: true }),
  })
  t.equal(updated.status, 'ok')
  const { data: account } = await call(`${first.addresses.api}/accounts/getid`, { headers })
  await first.close()
  const metadata = await LevelMetadataStore.open({ path: join(dir, 'metadata') })
  const yearAgo = Buffer.from(String(Date.now() - 365 * day))
  await metadata.lookups.write([{ put: 'clock/newest', value: yearAgo }])
  await metadata.close()

  const service = await startHere(dir, settings)
  t.teardown(() => service.close())
  const { admin } = service.addresses
  const status = async () => (await call(`${admin}/admin/status`)).data
  const files = async () => {
    const { data } = await call(`${admin}/admin/accounts/${account.id}`)
    return data.statsCurrent.fileCount
  }
  t.match((await status()).clock, { agrees: false })
  const metrics = await (await fetch(`${admin}/metrics`)).text()
  t.ok(Number(/^holdfast_clock_jump_seconds (\S+)$/m.exec(metrics)?.[1]) > 300 * 86_400)
  // some twenty sweeps after it was due
  const before = new Set<number>()
  while (Date.now() < (expiry + 2) * 1000) before.add(await files())
  t.same([...before], [1])
  t.equal((await call(`${admin}/admin/clock/accept`, { method: 'POST' })).status, 'ok')
  while ((await files()) > 0) await new Promise((again) => setTimeout(again, 20))
  t.match((await status()).clock, { agrees: true })
})
