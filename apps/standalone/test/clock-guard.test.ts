/** A clock that is far from the newest noted time deletes nothing until the operator accepts it. */

import { join } from 'node:path'
import { ctl } from '@holdfast/ctl'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { LevelMetadataStore } from '@holdfast/journal-level'
import { testMetadataStore } from '@holdfast/journal-level/testing'
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

t.test('due content stays until the clock is accepted', async (t) => {
  const dir = dataDir(t)
  const settings = { HOLDFAST_EXPIRY_SWEEP_SECONDS: '0.05' }
  // Only the second service sweeps: the first would sweep after an hour.
  const first = await startHere(dir, { HOLDFAST_EXPIRY_SWEEP_SECONDS: '3600' })
  const { data: file } = await uploadText(first.addresses.upload, { name: 'a.txt', text: 'a text' })
  const headers = { authorization: `Bearer ${file.guestToken}`, 'content-type': 'application/json' }
  const expiry = Math.floor(Date.now() / 1000) + 6
  const updated = await call(`${first.addresses.api}/contents/${file.parentFolder}/update`, {
    method: 'PUT',
    headers,
    body: JSON.stringify({ attribute: 'expiry', attributeValue: expiry, deleteAfterExpiry: true }),
  })
  t.equal(updated.status, 'ok')
  const { data: account } = await call(`${first.addresses.api}/accounts/getid`, { headers })
  await first.close()
  const metadata = await LevelMetadataStore.open({ ...testMetadataStore, path: join(dir, 'metadata') })
  const yearAgo = Buffer.from(String(Date.now() - 365 * day))
  await metadata.lookups.write([{ put: 'clock/newest', value: yearAgo }])
  await metadata.close()

  const service = await startHere(dir, {
    ...settings,
    HOLDFAST_GUEST_LIFETIME_DAYS: '2',
    HOLDFAST_GUEST_LIFETIME_MAX_DAYS: '7',
    HOLDFAST_GUEST_IDLE_DAYS: '1',
  })
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
  const untilMs = Math.max(Date.now(), expiry * 1000) + 2_000
  while (Date.now() < untilMs) before.add(await files())
  t.same([...before], [1])
  t.equal((await call(`${admin}/admin/clock/accept`, { method: 'POST' })).status, 'ok')
  while ((await files()) > 0) await new Promise((again) => setTimeout(again, 20))
  t.match((await status()).clock, { agrees: true })

  t.test('deletions by timers are counted, listed, and can be undone', async (t) => {
    const counted = await (await fetch(`${admin}/metrics`)).text()
    t.match(counted, /^holdfast_swept_contents_total\{why="expired"\} 2$/m)
    const run = async (...words: string[]) => {
      const reported = { out: [] as string[], err: [] as string[] }
      const code = await ctl([...words, '--admin', admin], {
        env: {},
        readSecret: () => '',
        print: (text) => reported.out.push(text),
        complain: (text) => reported.err.push(text),
      })
      t.equal(code, 0, reported.err.join())
      return JSON.parse(reported.out.join('\n'))
    }
    const [deletion, ...others] = await run('deletions', 'list', account.id)
    t.same(others, [])
    const { id, why, files: count, bytes, heldUntil, deletedTime } = deletion
    t.same([id, why, count, bytes], [file.parentFolder, 'expired', 1, 6])
    t.equal(heldUntil - deletedTime, 86_400)
    t.match(await run('deletions', 'undo', account.id, id), [{ id: file.parentFolder }])
    t.equal(await files(), 1)
    t.same(await run('deletions', 'list', account.id), [])
  })

  t.test('an upload answers its lifetimes, and they limit a later expiry', async (t) => {
    const seconds = Math.floor(Date.now() / 1000)
    const { data: later } = await uploadText(service.addresses.upload, { name: 'b.txt', text: 'b' })
    t.ok(Math.abs(later.expiry - seconds - 2 * 86_400) < 60)
    t.ok(Math.abs(later.idleExpiry - seconds - 86_400) < 60)
    const { data: folder } = await call(`${service.addresses.api}/contents/${later.parentFolder}/update`, {
      method: 'PUT',
      headers: { ...headers, authorization: `Bearer ${later.guestToken}` },
      body: JSON.stringify({ attribute: 'expiry', attributeValue: seconds + 86_400 * 365 }),
    })
    t.ok(Math.abs(folder.expiry - seconds - 7 * 86_400) < 60)
    const page = await (await fetch(service.addresses.api)).text()
    t.match(page, 'a folder is deleted 2 days after it was made, 7 days at most')
  })
})
