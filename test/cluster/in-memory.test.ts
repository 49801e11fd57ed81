/**
 * Every process of a cluster starts, serves and ends over a bus and journals in memory: what
 * `start.ts` of each app puts together is right, and no setting is lost on the way. The chunk
 * stores, the listeners, their certificates and all that is between them are real.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startActorHost } from '@holdfast/actor-host'
import { startApi } from '@holdfast/api/start'
import type { ClusterStart, Connect } from '@holdfast/cluster'
import { memoryServers } from '@holdfast/cluster/testing'
import { clusterSettings, describeSettings, readClusterConfig, settings } from '@holdfast/config'
import { startStorageNode } from '@holdfast/storage-node'
import { Authority } from '@holdfast/trust'
import { startUpload } from '@holdfast/upload/start'
import { pino } from 'pino'
import t from 'tap'

interface Running {
  addresses: Record<string, string>
  close(): Promise<void>
}

const region = 'eu-par'
const nodes = ['node1', 'node2', 'node3']

function starterOf(directory: string, connect: Connect) {
  return (name: string, start: (options: ClusterStart) => Promise<Running>, more: object = {}) => {
    const env = {
      HOLDFAST_NODE_NAME: name,
      HOLDFAST_DATA_DIR: join(directory, name),
      HOLDFAST_CLUSTER_SECRET: 'a-secret-of-this-test',
      HOLDFAST_RATE_LIMITS: 'off',
      HOLDFAST_OPEN_LISTING: 'on',
      HOLDFAST_CONNECTIONS_MAX: '120',
      HOLDFAST_TLS_CA: join(directory, 'certs/machine/ca.pem'),
      HOLDFAST_TLS_CERT: join(directory, 'certs/machine/node.pem'),
      HOLDFAST_TLS_KEY: join(directory, 'certs/machine/node.key'),
      ...Object.fromEntries(
        ['API', 'UPLOAD', 'DOWNLOAD', 'ADMIN', 'CONTROL', 'BYTES'].map((port) => [
          `HOLDFAST_${port}_PORT`,
          '0',
        ]),
      ),
      ...more,
    }
    const { config, secrets } = readClusterConfig(env, {
      readSecret: (path) => readFileSync(path, 'utf8'),
    })
    return start({
      config,
      secrets,
      settings: describeSettings(env, { ...settings, ...clusterSettings }),
      log: pino({ level: 'silent' }),
      connect,
    })
  }
}

const isReady = async ({ addresses }: Running) => (await fetch(`${addresses.admin}/readyz`)).ok

/** What a cluster has no use for: its metadata are Cassandra's, and so are backups. */
const embeddedAlone = new Set([
  'holdfast_backup_last_timestamp_seconds',
  'holdfast_clock_jump_seconds',
  'holdfast_metadata_lost_batches',
  'holdfast_metadata_writable',
])

function metricsIn(page: string): Set<string> {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')
  return new Set([...text.matchAll(/^\| `(holdfast_\w+)` /gm)].map(([, name]) => name as string))
}

async function metricsOf({ addresses }: Running): Promise<Set<string>> {
  const text = await (await fetch(`${addresses.admin}/metrics`)).text()
  return new Set([...text.matchAll(/^# TYPE (holdfast_\w+) /gm)].map(([, name]) => name as string))
}

async function eventually(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt++) {
    if (await holds()) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`not: ${what}`)
}

t.test('the processes of a cluster serve an upload, a change and a download', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-'))
  const authority = await Authority.create(join(directory, 'certs'), { name: 'test', days: 2 })
  await authority.issue({ host: 'machine', names: ['127.0.0.1'] }, { days: 2 })
  const start = starterOf(directory, memoryServers([region]))
  const running: Running[] = []
  t.teardown(async () => {
    for (const one of running.toReversed()) await one.close()
    await rm(directory, { recursive: true })
  })
  const started = async (one: Promise<Running>) => {
    running.push(await one)
    return running.at(-1) as Running
  }
  await Promise.all(nodes.map((name) => started(start(name, startStorageNode))))
  await started(start('host', startActorHost))
  const scanner = join(directory, 'scanner')
  await writeFile(scanner, '#!/bin/sh\nif grep -q EVIL; then echo Evil; exit 1; fi\n', { mode: 0o755 })
  const upload = await started(start('upload', startUpload, { HOLDFAST_SCANNER: `program:${scanner}` }))
  const api = await started(
    start('api', startApi, {
      HOLDFAST_PUBLIC_UPLOAD_URL: upload.addresses.upload,
      HOLDFAST_PUBLIC_DOWNLOAD_URL: upload.addresses.download,
    }),
  )
  await eventually('every process is ready', async () =>
    (await Promise.all(running.map(isReady))).every(Boolean),
  )

  const connectionsOf = async ({ addresses }: Running) =>
    [
      ...(await (await fetch(`${addresses.admin}/metrics`)).text()).matchAll(
        /^holdfast_connections_max\{host="(api|upload|download)"\} (\d+)$/gm,
      ),
    ].map(([, host, max]) => `${host} ${max}`)
  t.strictSame(
    await Promise.all([running[0] as Running, upload, api].map(connectionsOf)),
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
})

async function dataOf(asked: Promise<Response>): Promise<Record<string, unknown>> {
  const answer = (await (await asked).json()) as { status: string; data: Record<string, unknown> }
  if (answer.status !== 'ok') throw new Error(answer.status)
  return answer.data
}
