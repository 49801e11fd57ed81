/**
 * Every process of a cluster starts, serves and ends over a bus and journals in memory: what
 * `start.ts` of each app puts together is right, and no setting is lost on the way. The chunk
 * stores, the listeners, their certificates and all that is between them are real.
 */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '@holdfast/kernel'
import { pino } from 'pino'
import t from 'tap'
import { sameAsGolden } from '../../infra/golden.ts'
import { until } from '../support/until.ts'
import { dataOf, type RunningProcess, startMemoryCluster } from './in-memory.ts'

/** Metrics that a cluster does not have: Cassandra has its metadata. */
const embeddedAlone = new Set([
  'holdfast_clock_jump_seconds',
  'holdfast_metadata_lost_batches',
  'holdfast_metadata_unaudited_batches_total',
  'holdfast_metadata_writable',
])

function metricsIn(page: string): Set<string> {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')
  return new Set([...text.matchAll(/^\| `(holdfast_\w+)` /gm)].map(([, name]) => name as string))
}

async function metricsOf({ addresses }: RunningProcess): Promise<Set<string>> {
  const text = await (await fetch(`${addresses.admin}/metrics`)).text()
  return new Set([...text.matchAll(/^# TYPE (holdfast_\w+) /gm)].map(([, name]) => name as string))
}

t.test('the processes of a cluster serve an upload, a change and a download', async (t) => {
  const scanner = join(t.testdir(), 'scanner')
  await writeFile(scanner, '#!/bin/sh\nif grep -q EVIL; then echo Evil; exit 1; fi\n', { mode: 0o755 })
  const { nodes, upload, api, running, settingsRead, messages } = await startMemoryCluster(t, {
    logOf: () => pino({ level: 'silent' }),
    scanner: `program:${scanner}`,
  })

  const readBy = [...settingsRead].filter(([name]) => name !== 'node2' && name !== 'node3')
  const lines = readBy.flatMap(([name, read]) => [...read].map((setting) => `${name} ${setting}`))
  sameAsGolden(t, import.meta.dirname, 'settings-read.txt', lines.sort())

  const connectionsOf = async ({ addresses }: RunningProcess) =>
    [
      ...(await (await fetch(`${addresses.admin}/metrics`)).text()).matchAll(
        /^holdfast_connections_max\{host="(api|upload|download)"\} (\d+)$/gm,
      ),
    ].map(([, host, max]) => `${host} ${max}`)
  t.strictSame(
    await Promise.all([nodes[0] as RunningProcess, upload, api].map(connectionsOf)),
    [['download 120'], ['upload 60', 'download 60'], ['api 120']],
    'hosts share the connections of their process',
  )

  t.strictSame(
    (await Promise.all(running.map(metricsOf))).reduce((all, some) => all.union(some)),
    metricsIn('infra/METRICS.md').difference(embeddedAlone),
    'the processes together show every metric of the document',
  )

  const form = new FormData()
  form.set('file', new Blob(['bytes of a file']), 'a.txt')
  const file = await dataOf(fetch(`${upload.addresses.upload}/uploadfile`, { method: 'POST', body: form }))
  const authorized = { authorization: `Bearer ${file.guestToken}` }
  await dataOf(
    fetch(`${api.addresses.api}/contents/${file.id}/update`, {
      method: 'PUT',
      headers: { ...authorized, 'content-type': 'application/json' },
      body: JSON.stringify({ attribute: 'name', attributeValue: 'b.txt' }),
    }),
  )
  const items = await dataOf(
    fetch(`${api.addresses.api}/contents/${file.parentFolder}`, { headers: authorized }),
  )
  const [child] = Object.values(items.children as object) as Record<string, string>[]
  t.match(child, { name: 'b.txt', size: 15 })
  const page = `${api.addresses.api}/d/${file.parentFolderCode}`
  t.equal((await fetch(page)).status, 200, 'the pages are there')
  const download = await fetch(String(child?.link), { headers: authorized })
  t.equal(await download.text(), 'bytes of a file')

  const operator = (path: string, body?: object) =>
    dataOf(
      fetch(`${api.addresses.admin}/admin/${path}`, {
        ...(body && { method: 'POST', body: JSON.stringify(body) }),
        headers: { 'content-type': 'application/json' },
      }),
    )
  const md5 = createHash('md5').update('bytes of a file').digest('hex')
  for (const sought of ['text=B.TXT', `hash=${md5}`])
    t.match(await operator(`contents/find?${sought}`), { hits: [{ id: file.id }], failed: [], next: null })
  const deleted = await operator('contents/delete-hash', { hash: md5 })
  t.match(deleted, { deleted: 1, failed: [], next: null })
  t.same((await operator('contents/find?text=b.txt')).hits, [], 'accounts are asked from another process')
  const { id } = deleted.act as { id: string }
  t.match(await operator(`acts/${id}/undo`, {}), { changed: 1, next: null })
  t.match(await operator('contents/find?text=b.txt'), { hits: [{ id: file.id }] })

  const evil = new FormData()
  evil.set('file', new Blob(['EVIL bytes']), 'b.txt')
  const found = await fetch(`${upload.addresses.upload}/uploadfile`, { method: 'POST', body: evil })
  t.equal(found.status, 451, 'the scanner is asked')
  const status = await (await fetch(`${upload.addresses.admin}/admin/status`)).json()
  t.match(status, { data: { scanning: { outcomes: { clean: 1, found: 1 } } } })
  const acts = await (await fetch(`${api.addresses.admin}/admin/acts`)).json()
  t.match(acts, { data: { acts: [{ by: 'scanner', kind: 'block' }] } }, 'all processes have its act')

  const whole = JSON.stringify((await operator('status')).cluster)
  t.match(whole, /"limited":\["no other region has storage nodes"\]/)
  await operator('collect', { graceSeconds: 0 })
  await operator('reconcile', { dryRun: true })
  await fetch(`${api.addresses.admin}/admin/bans/192.0.2.1`, { method: 'DELETE' })
  // Processes of two releases talk to each other during an upgrade. Some members are rare.
  const known = readFileSync(join(import.meta.dirname, 'golden/messages.txt'), 'utf8')
    .trim()
    .split('\n')
  sameAsGolden(t, import.meta.dirname, 'messages.txt', [...messages.union(new Set(known))].sort())
  for (const one of ['collect.* asks .graceMs number', 'reconcile.* asks .dryRun boolean'])
    t.ok(messages.has(one), one)
})

t.test('a process whose clock is off fires no timers, and is named', async (t) => {
  let aheadMs = 0
  const ahead = { now: () => systemClock.now() + aheadMs, monotonic: () => systemClock.monotonic() }
  const warnings: string[] = []
  const { host, api } = await startMemoryCluster(t, {
    logOf: (name) =>
      name === 'host' ? pino({ level: 'warn' }, noteTo(warnings)) : pino({ level: 'silent' }),
    clockOf: (name) => (name === 'host' ? ahead : systemClock),
    scanner: '',
  })
  const clocks = async () => {
    const status = await dataOf(fetch(`${api.addresses.admin}/admin/status`))
    return (status.cluster as { clocks: { agree: boolean; says: string } }).clocks
  }
  const offset = async () => {
    const text = await (await fetch(`${host.addresses.admin}/metrics`)).text()
    return Number(/^holdfast_clock_offset_seconds (\S+)$/m.exec(text)?.[1])
  }
  t.match(await clocks(), { agree: true })
  t.ok(Math.abs(await offset()) < 1)
  aheadMs = 10_000
  const rests = 'the wall clock is far from where it should be: no timer of an account fires'
  await until(async () => warnings.some((line) => line.includes(rests)))
  await until(async () => / is \d\d?\.\d s ahead\. /.test((await clocks()).says))
  t.match(await clocks(), { agree: false, says: /^host is / })
  t.ok((await offset()) > 8, 'and shown by a metric')
  aheadMs = 0
  const goesOn = 'the wall clock is where it should be again'
  await until(async () => warnings.some((line) => line.includes(goesOn)))
  await until(async () => (await clocks()).agree)
})

function noteTo(lines: string[]) {
  return { write: (line: string) => void lines.push(line) }
}
