/**
 * A cluster is backed up while it serves, and restored into an empty one: all processes in this
 * one, over a bus and journals in memory. The chunk stores and all that is between are real.
 */

import { createHash, randomBytes } from 'node:crypto'
import { readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { BackupDirectory, lastBackupKey, verifyBackup } from '@holdfast/backup'
import { ctl } from '@holdfast/ctl'
import type { WholeStore } from '@holdfast/journal'
import { referenceOfRow } from '@holdfast/journal-level'
import { pino } from 'pino'
import t from 'tap'
import { until } from '../support/until.ts'
import { dataOf, newMemoryCluster, type RunningProcess } from './in-memory.ts'

interface StoredFile {
  token: string
  id: string
  folder: string
  code: string
  md5: string
}

const logOf = () => pino({ level: 'silent' })

async function commanded(process: RunningProcess, ...words: string[]) {
  const out: string[] = []
  const err: string[] = []
  const code = await ctl([...words, '--admin', process.addresses.admin as string], {
    env: {},
    readSecret: () => '',
    print: (line) => out.push(line),
    complain: (line) => err.push(line),
  })
  return { code, said: out.join('\n'), complaint: err.join('\n') }
}

async function uploaded(upload: RunningProcess, bytes: Uint8Array): Promise<StoredFile> {
  const form = new FormData()
  form.set('file', new Blob([bytes]), 'a.bin')
  const file = await dataOf(fetch(`${upload.addresses.upload}/uploadfile`, { method: 'POST', body: form }))
  return {
    token: String(file.guestToken),
    id: String(file.id),
    folder: String(file.parentFolder),
    code: String(file.parentFolderCode),
    md5: createHash('md5').update(bytes).digest('hex'),
  }
}

async function contentOf(api: RunningProcess, { token, folder }: StoredFile) {
  const headers = { authorization: `Bearer ${token}` }
  const items = await dataOf(fetch(`${api.addresses.api}/contents/${folder}`, { headers }))
  const [child] = Object.values(items.children as object) as Record<string, string>[]
  const bytes = await (await fetch(String(child?.link), { headers })).bytes()
  return { id: child?.id, md5: createHash('md5').update(bytes).digest('hex') }
}

function largestIn(folder: string): string {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
  return files.reduce((one, next) => (statSync(next).size > statSync(one).size ? next : one))
}

/** Counters, and the newest versions of placement groups. */
async function numbersOf(cluster: { sharedRows(): Promise<WholeStore> }): Promise<Map<string, number>> {
  const store = await cluster.sharedRows()
  const numbers = new Map<string, number>()
  for await (const { counter, next } of store.counters()) numbers.set(counter, next)
  for await (const { key } of store.lookups()) {
    const [, group, version] = /^(pg\/.*)\/(\d+)$/.exec(key) ?? []
    if (group !== undefined) numbers.set(group, Math.max(numbers.get(group) ?? 0, Number(version)))
  }
  return numbers
}

t.test('a cluster comes back from its backup', async (t) => {
  const from = await newMemoryCluster(t, { logOf })
  const { nodes, upload, api } = await from.startAll('')
  // Both clusters begin with the same numbers: this one has given out more.
  const writer = (await from.sharedRows()).restoring({ atMs: 0 })
  await writer.add({ kind: 'counter', counter: 'codes/eu-par', next: 7_000_000 })
  const contents = [randomBytes(900_000), randomBytes(20_000), Buffer.from('a text'), Buffer.alloc(0)]
  const files: StoredFile[] = []
  for (const bytes of contents) files.push(await uploaded(upload, bytes))

  const directory = t.testdir()
  const target = join(directory, 'backup')
  const [node] = nodes as [RunningProcess]
  const first = await commanded(node, 'backup', target)
  t.equal(first.code, 0, first.complaint)
  t.match(JSON.parse(first.said), { copies: 4, unreadable: [] })
  const later = await uploaded(upload, Buffer.from('after the first backup'))
  const second = await commanded(api, 'backup', target)
  t.match(JSON.parse(second.said), { copies: 5, unreadable: [] })
  t.match((await dataOf(fetch(`${api.addresses.admin}/admin/status`))).backup, {
    run: { what: 'backup', running: false },
    lastMs: Number,
  })
  // Any process that starts later knows it from the shared row.
  const noted: string[] = []
  for await (const { key, value } of (await from.sharedRows()).lookups())
    if (key === lastBackupKey) noted.push(Buffer.from(value).toString())
  t.match(noted, [/^\d{13}$/])
  t.match(JSON.parse((await commanded(api, 'verify', target)).said), {
    copies: 5,
    references: 5,
    damaged: 0,
    missing: 0,
  })
  const single = await commanded(api, 'restore', target, join(directory, 'single'))
  t.match(single.complaint, /is the backup of a cluster/)

  const to = await newMemoryCluster(t, { logOf })
  const empty = await to.startAll('')
  const refused = await commanded(empty.nodes[0] as RunningProcess, 'cluster', 'restore', target)
  t.match(refused, { code: 1, complaint: /stop the actor hosts first: host/ })
  await to.stop()
  const [restorer] = (await to.startNodes()) as [RunningProcess]
  await until(async () => (await fetch(`${restorer.addresses.admin}/readyz`)).ok)
  const restoring = (...more: string[]) => commanded(restorer, 'cluster', 'restore', target, ...more)
  // A restore that ended early is repeated.
  const large = largestIn(join(target, 'objects'))
  renameSync(large, join(directory, 'aside'))
  let restored = await restoring()
  // A node that was just started is ready when the others have heard of it.
  for (let attempt = 0; attempt < 20 && /no storage node/.test(restored.complaint); attempt++) {
    await delay(200)
    restored = await restoring()
  }
  t.match(restored, { code: 1, complaint: /--without-damaged restores the rest/ })
  const other = await restoring('--at', JSON.parse(first.said).snapshot)
  t.match(other.complaint, /a restore of the backup of .* was begun here/)
  renameSync(join(directory, 'aside'), large)
  restored = await restoring()
  t.equal(restored.code, 0, restored.complaint)
  t.match(JSON.parse(restored.said), { copies: 5, damaged: 0, unreadable: [] })
  const [before, after] = await Promise.all([from, to].map(numbersOf))
  for (const [name, number] of before ?? []) {
    const now = after?.get(name) ?? 0
    if (name.startsWith('pg/')) t.ok(now > number, `${name} has a version above ${number}`)
    else t.ok(now >= number, `${name} continues from ${number}`)
  }
  t.ok((before?.size ?? 0) > 2, 'groups and counters')
  const again = await restoring()
  t.match(again.complaint, /the cluster is not empty/)

  await to.stop()
  const back = await to.startAll('')
  for (const [at, file] of [...files, later].entries()) {
    t.match(await contentOf(back.api, file), { id: file.id, md5: file.md5 }, `file ${at}, by its token`)
    const page = await fetch(`${back.api.addresses.api}/d/${file.code}`)
    t.equal(page.status, 200, 'by its share code')
  }
  t.match(JSON.parse((await commanded(back.api, 'reconcile', '--dry-run')).said), { missing: 0, orphaned: 0 })
  await until(async () => {
    const { cluster } = await dataOf(fetch(`${back.api.addresses.admin}/admin/status`))
    return (cluster as { replication: { full: boolean } }).replication.full
  })
  const fresh = await uploaded(back.upload, Buffer.from('after the restore'))
  t.notOk(
    [...files, later].some(({ code }) => code === fresh.code),
    'no share code is given again',
  )
})

t.test('what an account loses while it is copied is in the backup', async (t) => {
  const from = await newMemoryCluster(t, { logOf })
  const { nodes, upload, api } = await from.startAll('')
  const file = await uploaded(upload, randomBytes(300_000))
  const target = join(t.testdir(), 'backup')
  const [node] = nodes as [RunningProcess]
  // 100 kB/s: the file takes some seconds.
  const backup = commanded(node, 'backup', target, '--rate', '100000')
  await until(async () => {
    const run = await dataOf(fetch(`${node.addresses.admin}/admin/run`))
    return ((run.progress as { writtenBytes?: number } | undefined)?.writtenBytes ?? 0) > 0
  })
  await dataOf(
    fetch(`${api.addresses.api}/contents`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${file.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ contentsId: file.id }),
    }),
  )
  const heldBy = async () => {
    const { nodes } = JSON.parse((await commanded(api, 'collect', '--grace', '0')).said)
    return Object.values(nodes as Record<string, { held?: string }>).map(({ held }) => held)
  }
  for (const held of await heldBy()) t.match(held, /backup/, 'no node deletes meanwhile')
  t.match(JSON.parse((await backup).said), { copies: 1, unreadable: [] })
  await until(async () => (await heldBy()).every((held) => held === undefined))
  const directory = await BackupDirectory.open(target)
  t.match(await verifyBackup(directory, await directory.snapshot(), referenceOfRow), {
    copies: 1,
    references: 1,
    missing: 0,
  })
  rmSync(target, { recursive: true })
})
