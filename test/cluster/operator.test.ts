/**
 * An operator's work on a cluster, with `ctl`: a region that is lost and taken over, a storage node
 * that is emptied, and one that is permanently gone. One start serves all of it.
 */

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ctl } from '@holdfast/ctl'
import { CassandraMetadataStore } from '@holdfast/journal-cassandra'
import { plainConnection, plainStore } from '@holdfast/journal-cassandra/testing'
import { hex, Keyring, type RegionCode } from '@holdfast/kernel'
import cassandra from 'cassandra-driver'
import t from 'tap'
import { freePorts } from '../../infra/servers/ports.ts'
import { startProcess } from '../../infra/servers/server.ts'
import { sizeOf } from '../forms.ts'
import { until } from '../support/until.ts'
import { type ClusterRegion, LocalCluster } from './local-cluster.ts'

t.setTimeout(900_000)

const cluster = await LocalCluster.start()
t.teardown(() => cluster.stop())
const [home, other] = (await cluster.regions()) as [ClusterRegion, ClusterRegion]

async function run(...words: string[]): Promise<{ code: number; out: string; err: string }> {
  const out: string[] = []
  const err: string[] = []
  const code = await ctl([...words, '--admin', home.admin], {
    env: {},
    readSecret: () => '',
    print: (line) => out.push(line),
    complain: (line) => err.push(line),
  })
  return { code, out: out.join('\n'), err: err.join('\n') }
}

async function said<T>(...words: string[]): Promise<T> {
  const { code, out, err } = await run(...words)
  if (code !== 0) throw new Error(`ctl ${words.join(' ')}: ${err}`)
  return JSON.parse(out) as T
}

interface Status {
  cluster: {
    regions: { code: string; serving: string; term: number; actorHosts: number }[]
    nodes: {
      id: string
      role: string
      region: string
      ready: boolean
      placementGroups?: number
      accounts?: number
      lagMs?: number
    }[]
    placementGroups: { number: number; region: string; members: string[]; remote: string[]; full: boolean }[]
    replication: { full: boolean; says: string }
  }
}

const status = async () => (await said<Status>('status')).cluster

interface UploadAnswer {
  id: string
  link: string
  guestToken: string
  parentFolder: string
}

async function upload(host: string, content: string): Promise<UploadAnswer> {
  const form = new FormData()
  form.append('file', new Blob([content]), 'a.txt')
  return dataOf(await fetch(`${host}/uploadfile`, { method: 'POST', body: form }))
}

async function dataOf<T>(answer: Response): Promise<T> {
  const { status, data } = (await answer.json()) as { status: string; data: T }
  if (status !== 'ok') throw new Error(`answered with ${status}`)
  return data
}

/** How changes were refused, and how often. */
const refusals = new Map<string, number>()

async function makeFolder(api: string, { guestToken, parentFolder }: UploadAnswer): Promise<boolean> {
  const answer = await fetch(`${api}/contents/createFolder`, {
    method: 'POST',
    headers: { authorization: `Bearer ${guestToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ parentFolderId: parentFolder }),
    signal: AbortSignal.timeout(20_000),
  })
  const { status } = (await answer.json()) as { status: string }
  if (status !== 'ok') refusals.set(status, (refusals.get(status) ?? 0) + 1)
  return status === 'ok'
}

async function accountOf({ guestToken }: UploadAnswer): Promise<string> {
  const answer = await fetch(`${home.api}/accounts/getid`, {
    headers: { authorization: `Bearer ${guestToken}` },
  })
  return (await dataOf<{ id: string }>(answer)).id
}

async function shown(api: string, { id, guestToken }: UploadAnswer): Promise<{ serverSelected: string }> {
  return dataOf(await fetch(`${api}/contents/${id}`, { headers: { authorization: `Bearer ${guestToken}` } }))
}

async function folderCount(api: string, { guestToken }: UploadAnswer): Promise<number> {
  const get = async <T>(id: string): Promise<T> =>
    dataOf(await fetch(`${api}/accounts/${id}`, { headers: { authorization: `Bearer ${guestToken}` } }))
  const { id } = await get<{ id: string }>('getid')
  return (await get<{ statsCurrent: { folderCount: number } }>(id)).statsCurrent.folderCount
}

/** Resolves when the region's storage nodes have everything that was uploaded anywhere before. */
async function copiedTo({ code }: ClusterRegion): Promise<void> {
  const startedMs = performance.now()
  // A node's report is as old as a heartbeat.
  const heartbeatMs = 2_000
  await until(async () => {
    const { nodes, replication } = await status()
    const here = nodes.filter(({ role, region }) => role === 'storage-node' && region === code)
    const sinceMs = performance.now() - startedMs - heartbeatMs
    return replication.full && here.every(({ lagMs }) => lagMs !== undefined && lagMs < sinceMs)
  })
}

/** Links name the download host of their region: requests go to another one. */
function linkAt(region: ClusterRegion, link: string): string {
  const { pathname, search } = new URL(link)
  return `${region.download}${pathname}${search}`
}

const serversOf = (region: ClusterRegion) => region.processes.filter(({ admin }) => admin === null)
const oursOf = (region: ClusterRegion) => region.processes.filter(({ admin }) => admin !== null)

t.test(
  'status shows regions, hosts with their accounts, and that every placement group is whole',
  async (t) => {
    await until(async () => (await status()).replication.full)
    const { regions, nodes, replication } = await status()
    t.match(regions, [
      { code: 'eu-par', serving: 'eu-par', term: 1, actorHosts: 2 },
      { code: 'na-nyc', serving: 'na-nyc', term: 1, actorHosts: 2 },
    ])
    t.equal(nodes.length, 12)
    t.match(replication.says, /^all \d placement groups have every copy$/)
  },
)

interface Lookup {
  part: string
  key: string
  at: { toString(): string }
}

const damaged = sizeOf('damagedReferences')

t.test(
  `${damaged} lost and ${damaged} stray references are found and mended, and no file is lost`,
  async (t) => {
    const owners = await Promise.all([1, 2, 3, 4].map((at) => upload(home.upload, `owner ${at}`)))
    const links = new Map<string, string>()
    const uploaded = async (at: number) => {
      const owner = owners[at % owners.length] as UploadAnswer
      const form = new FormData()
      form.append('folderId', owner.parentFolder)
      form.append('file', new Blob([`reference ${at}`]), 'a.txt')
      const headers = { authorization: `Bearer ${owner.guestToken}` }
      const answer = await fetch(`${home.upload}/uploadfile`, { method: 'POST', headers, body: form })
      links.set(`reference ${at}`, (await dataOf<UploadAnswer>(answer)).link)
    }
    await inTurns(damaged, uploaded)
    const before = await said<{ used: number; missing: number }>('reconcile')
    t.equal(before.missing, 0)
    t.ok(before.used >= damaged)

    const cassandraOf = (await cluster.cassandraAddresses()).get(home.code) as string
    const client = new cassandra.Client({
      ...{ contactPoints: [cassandraOf], localDataCenter: home.code, keyspace: 'holdfast_lookups' },
      queryOptions: { prepare: true, consistency: cassandra.types.consistencies.all, fetchSize: 20_000 },
    })
    t.teardown(() => client.shutdown())
    const { rows } = await client.execute('SELECT part, key, WRITETIME(value) AS at FROM lookups')
    const all = (rows as unknown as Lookup[]).filter(({ key }) => key.startsWith('ref/'))
    const lost = all.slice(0, damaged)
    // A delete with the write time of the row wins, and loses to what its owner writes later.
    await inTurns(lost.length, async (at) => {
      const { part, key, at: time } = lost[at] as Lookup
      const remove = 'DELETE FROM lookups USING TIMESTAMP ? WHERE part = ? AND key = ?'
      await client.execute(remove, [cassandra.types.Long.fromString(String(time)), part, key])
    })
    const { rows: secrets } = await client.execute("SELECT value FROM lookups WHERE part = 'setting/master'")
    const { ids } = new Keyring(secrets[0]?.value)
    // Neither was made. Rows of one born in no region of the cluster stay.
    const [unknown, foreign] = [ids.account(home.code as RegionCode), ids.account('ap-syd')]
    const accounts = await Promise.all(owners.map(accountOf))
    await inTurns(damaged + 1, async (at) => {
      const part = `ref/${hex(randomBytes(48))}/${hex(randomBytes(16))}`
      const owner = at % 10 === 0 ? unknown : accounts[at % accounts.length]
      const key = `${part}/${at === damaged ? foreign : owner}`
      const insert = 'INSERT INTO lookups (part, key, value) VALUES (?, ?, ?)'
      await client.execute(insert, [part, key, Buffer.alloc(0)])
    })

    const found = { missing: damaged, orphaned: damaged, failed: 0 }
    t.match(await said('reconcile', '--dry-run'), { ...found, mended: 0, dryRun: true })
    t.match(await said('reconcile'), { ...found, mended: 2 * damaged, dryRun: false })
    t.match(await said('reconcile'), { missing: 0, orphaned: 0, mended: 0, failed: 0 })
    t.match(await said('collect', '--grace', '0'), { deleted: 0 })
    const texts = [...links]
    await inTurns(texts.length, async (at) => {
      const [text, link] = texts[at] as [string, string]
      if ((await (await fetch(link)).text()) !== text) t.fail(`${text} is lost`)
    })
  },
)

/** With 16 at once. */
async function inTurns(count: number, work: (at: number) => Promise<void>): Promise<void> {
  for (let at = 0; at < count; at += 16)
    await Promise.all(Array.from({ length: Math.min(16, count - at) }, (_, one) => work(at + one)))
}

/** Neither can be done twice. */
const migrations = [['CREATE TABLE one (key text PRIMARY KEY)'], ['ALTER TABLE one ADD more text']]

async function changeTables(dataCentre: string, migrations: string[][]): Promise<CassandraMetadataStore> {
  return CassandraMetadataStore.open(
    {
      ...plainConnection,
      ...plainStore,
      contactPoints: [(await cluster.cassandraAddresses()).get(dataCentre) as string],
      dataCentre,
      keyspace: 'changed_once',
      replication: { [home.code]: 1, [other.code]: 1 },
    },
    { migrations },
  )
}

t.test('processes of both data centres that start together change the schema once', async (t) => {
  const starting = Array.from({ length: 6 }, (_, at) =>
    changeTables(at % 2 === 0 ? home.code : other.code, migrations),
  )
  for (const store of await Promise.all(starting)) await store.close()
  t.pass()
})

t.test(
  'a region is lost: others do not notice; after the takeover its accounts continue elsewhere',
  async (t) => {
    const near = await Promise.all([1, 2, 3].map((at) => upload(home.upload, `near ${at}`)))
    const far = await Promise.all([1, 2, 3, 4].map((at) => upload(other.upload, `far ${at}`)))
    for (const one of far) t.ok(await makeFolder(other.api, one))
    const counts = await Promise.all(far.map((one) => folderCount(other.api, one)))
    await Promise.all([copiedTo(home), copiedTo(other)])
    const [viewed] = near as [UploadAnswer]
    t.equal((await run('account', 'tier', await accountOf(viewed), 'premium')).code, 0)
    for (const { code, api } of [home, other])
      await until(async () => (await shown(api, viewed)).serverSelected.startsWith(code))
    t.match(
      (await run('region', 'evacuate', other.code, '--fenced')).err,
      'actor hosts of the region are alive',
    )

    // Paused first, so that they return with all their memory.
    const paused = oursOf(other).filter(({ role }) => role === 'actor-host')
    const pids = new Map(
      await Promise.all(other.processes.map(async ({ name }) => [name, await cluster.pidOf(name)] as const)),
    )
    const signal = (name: string, what: NodeJS.Signals) => process.kill(pids.get(name) as number, what)
    for (const { name } of other.processes) signal(name, 'SIGSTOP')
    const schemaStays = t.rejects(
      changeTables(home.code, [...migrations, ['CREATE TABLE two (key text PRIMARY KEY)']]),
      { code: /^(UNAVAILABLE|UNKNOWN)$/ },
      'the schema cannot change without the other data centre',
    )

    let longestMs = 0
    let probing = true
    const probes = Promise.all(
      near.map(async (one) => {
        while (probing) {
          const startedMs = performance.now()
          t.ok(await makeFolder(home.api, one), 'an account of the other region is changed')
          longestMs = Math.max(longestMs, performance.now() - startedMs)
          await new Promise((resolve) => setTimeout(resolve, 100))
        }
      }),
    )
    await until(async () => (await status()).regions[1]?.actorHosts === 0)
    for (const [at, one] of far.entries())
      await until(async () => {
        return (await (await fetch(linkAt(home, one.link))).text()) === `far ${at + 1}`
      })
    t.match((await run('region', 'evacuate', other.code)).err, 'repeat with --fenced')
    const reported = await said<Record<string, unknown>>('region', 'evacuate', other.code, '--fenced')
    t.comment(JSON.stringify(reported))
    t.match(reported, {
      region: other.code,
      serving: home.code,
      term: 2,
      moved: true,
      failures: [],
      regionsThatKnow: [home.code],
    })
    t.ok((reported.accounts as number) >= far.length)

    for (const [at, one] of far.entries()) {
      const ms = await until(() => makeFolder(home.api, one))
      t.comment(`account ${at}: changed after ${ms} ms`)
      t.equal(
        await folderCount(home.api, one),
        (counts[at] as number) + 1,
        'nothing that had arrived is missing',
      )
      t.equal(await (await fetch(linkAt(home, one.link))).text(), `far ${at + 1}`, 'its file is read here')
    }
    probing = false
    await probes
    t.comment(`longest wait of an account of the other region: ${Math.round(longestMs)} ms`)
    t.ok(longestMs < 15_000, 'answered within one deadline')

    for (const role of ['actor-host', 'api', 'storage-node']) {
      const { name = '' } = oursOf(home).find((process) => process.role === role) ?? {}
      process.kill(await cluster.pidOf(name), 'SIGKILL')
      await cluster.restart(name)
    }
    for (const one of [...near, ...far]) await until(() => makeFolder(home.api, one))

    await schemaStays
    // The old hosts continue with all accounts in memory.
    for (const { name } of serversOf(other)) signal(name, 'SIGCONT')
    for (const { name } of oursOf(other)) signal(name, 'SIGCONT')
    let acknowledged = 0
    const deadline = performance.now() + 20_000
    while (performance.now() < deadline)
      for (const one of far) if (await makeFolder(other.api, one).catch(() => false)) acknowledged++
    t.comment(`${acknowledged} changes were acknowledged by the frontend of the region that came back`)
    await until(async () => {
      const hosts = (await status()).nodes.filter(({ id }) => paused.some(({ name }) => name === id))
      return hosts.length === paused.length && hosts.every(({ accounts }) => accounts === 0)
    })
    let seen = 0
    for (const [at, one] of far.entries())
      seen += (await folderCount(home.api, one)) - (counts[at] as number) - 2
    t.ok(seen >= acknowledged, `${seen} of ${acknowledged} changes are seen`)
    for (const { name } of oursOf(other)) await cluster.restart(name)
    for (const one of far) t.equal(await folderCount(other.api, one), await folderCount(home.api, one))
    const born = await upload(other.upload, 'born there')
    t.ok(await makeFolder(other.api, born), 'an account born there now')
    t.match((await status()).regions[1], { serving: home.code, term: 2, actorHosts: 2 })
    const again = await said<Record<string, unknown>>('region', 'evacuate', other.code)
    t.match(again, { moved: false, term: 2, failures: [] })
    t.comment(`rows behind the cut: ${again.lostRows}`)
  },
)

t.test('a region that is back serves its accounts at home again, and no change is lost', async (t) => {
  const files = await Promise.all([1, 2].map((at) => upload(other.upload, `back ${at}`)))
  const before = await Promise.all(files.map((file) => folderCount(home.api, file)))
  let returning = true
  const changing = Promise.all(
    files.map(async (file, at) => {
      let made = 0
      let open = 0
      for (let turn = at; returning; turn++) {
        const region = turn % 2 === 0 ? home : other
        if (await makeFolder(region.api, file).catch(() => false)) made++
        else open++
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      return { made, open }
    }),
  )
  const reported = await said<Record<string, unknown>>('region', 'return', other.code)
  returning = false
  const changes = await changing
  t.comment(`changes meanwhile: ${JSON.stringify(changes)}; ${JSON.stringify(reported)}`)
  t.match(reported, { serving: other.code, term: 3, moved: true, lostRows: 0, cutShort: [], failures: [] })
  for (const [at, { made, open }] of changes.entries()) {
    const file = files[at] as UploadAnswer
    const seen = (await folderCount(other.api, file)) - (before[at] as number)
    t.ok(made > 0 && seen >= made && seen <= made + open, `${seen} of ${made}, ${open} without an answer`)
    t.equal(await folderCount(home.api, file), (before[at] as number) + seen)
  }
  const returned = { serving: other.code, term: 3, handedOver: false }
  t.match((await status()).regions[1], returned, 'the old region is not asked any more')
  t.match(await said('region', 'return', other.code), { moved: false, term: 3 })
})

/**
 * Changes the accounts repeatedly, one after the other, while `work` runs. @returns how long the
 * longest one took, ms
 */
async function longestWhile(
  files: readonly UploadAnswer[],
  work: () => Promise<void>,
): Promise<{ ms: number; refused: number }> {
  let working = true
  let ms = 0
  let refused = 0
  const asking = Promise.all(
    files.map(async (file) => {
      while (working) {
        const startedMs = performance.now()
        if (!(await makeFolder(home.api, file))) refused++
        ms = Math.max(ms, performance.now() - startedMs)
      }
    }),
  )
  await work()
  working = false
  await asking
  return { ms: Math.round(ms), refused }
}

t.test('an actor host that is stopped, killed or paused costs its callers moments', async (t) => {
  const files = await Promise.all([1, 2, 3, 4, 5, 6].map((at) => upload(home.upload, `moved ${at}`)))
  const [first = '', second = ''] = oursOf(home)
    .filter(({ role }) => role === 'actor-host')
    .map(({ name }) => name)
  const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
  const reported: Record<string, number> = {}
  for (const how of ['SIGTERM', 'SIGKILL', 'SIGSTOP'] as const) {
    const pid = await cluster.pidOf(first)
    const { ms, refused } = await longestWhile(files, async () => {
      await wait(1_000)
      process.kill(pid, how)
      await wait(8_000)
    })
    reported[how] = ms
    t.equal(refused, 0, `${how}: every change is made`)
    if (refused > 0) t.comment(JSON.stringify([...refusals]))
    if (how === 'SIGSTOP') process.kill(pid, 'SIGCONT')
    else await cluster.restart(first)
    await until(async () => {
      const { nodes } = await status()
      return [first, second].every((name) => nodes.find(({ id }) => id === name)?.ready === true)
    })
  }
  t.comment(`longest wait: ${JSON.stringify(reported)} ms`)
  t.ok((reported.SIGTERM ?? 0) < 15_000, 'answered within one deadline')
  t.ok((reported.SIGKILL ?? 0) < 15_000, 'answered within one deadline')
  t.ok((reported.SIGSTOP ?? 0) < 15_000, 'answered within one deadline')
})

t.test('a storage node is emptied, and may be stopped permanently', async (t) => {
  const files = await Promise.all([1, 2, 3].map((at) => upload(home.upload, `drained ${at}`)))
  const [node = ''] = oursOf(home)
    .filter(({ role }) => role === 'storage-node')
    .map(({ name }) => name)
  await said('node', 'drain', node)
  const ms = await until(async () => {
    const { nodes, replication } = await status()
    return nodes.find(({ id }) => id === node)?.placementGroups === 0 && replication.full
  })
  t.comment(`empty after ${ms} ms; ${(await status()).replication.says}`)
  process.kill(await cluster.pidOf(node), 'SIGTERM')
  for (const [at, { link }] of files.entries()) t.equal(await (await fetch(link)).text(), `drained ${at + 1}`)
  t.equal(await (await fetch((await upload(home.upload, 'without it')).link)).text(), 'without it')
  await cluster.restart(node)
  await said('node', 'return', node)
  await until(async () => {
    const { nodes, replication } = await status()
    return (nodes.find(({ id }) => id === node)?.placementGroups ?? 0) > 0 && replication.full
  })
})

t.test('a permanently killed storage node: all placement groups return to full replication', async (t) => {
  const files = await Promise.all([1, 2, 3].map((at) => upload(home.upload, `rebuilt ${at}`)))
  const [, node = ''] = oursOf(home)
    .filter(({ role }) => role === 'storage-node')
    .map(({ name }) => name)
  process.kill(await cluster.pidOf(node), 'SIGKILL')
  await until(async () => !(await status()).replication.full)
  t.comment((await status()).replication.says)
  await said('node', 'remove', node)
  const ms = await until(async () => (await status()).replication.full)
  const { placementGroups, replication } = await status()
  t.comment(`full after ${ms} ms: ${replication.says}`)
  t.notOk(placementGroups.some(({ members, remote }) => [...members, ...remote].includes(node)))
  for (const [at, { link }] of files.entries()) t.equal(await (await fetch(link)).text(), `rebuilt ${at + 1}`)
  t.equal(await (await fetch((await upload(home.upload, 'after it')).link)).text(), 'after it')
})

t.test('an upload frontend that is a storage node too keeps the first copy; others follow', async (t) => {
  const name = `${home.code}-upload-2`
  const planned = await cluster.settingsOf(`${home.code}-upload-1`)
  const names = ['UPLOAD', 'DOWNLOAD', 'ADMIN', 'CONTROL', 'BYTES']
  const ports = await freePorts(names.length)
  const settings = {
    ...planned,
    ...Object.fromEntries(names.map((port, at) => [`HOLDFAST_${port}_PORT`, String(ports[at])])),
    HOLDFAST_NODE_NAME: name,
    HOLDFAST_DATA_DIR: join(cluster.dataDir, name),
    HOLDFAST_PUBLIC_UPLOAD_URL: '',
    HOLDFAST_PUBLIC_DOWNLOAD_URL: '',
    HOLDFAST_UPLOAD_STORES: 'on',
  }
  const main = fileURLToPath(new URL('../../apps/upload/src/main.ts', import.meta.url))
  const log = join(cluster.dataDir, 'logs', `${name}.log`)
  const frontend = startProcess(process.execPath, [main], {
    log,
    cwd: cluster.dataDir,
    env: { PATH: process.env.PATH ?? '', ...settings },
  })
  t.teardown(() => frontend.stop('SIGKILL'))
  const [uploads, downloads, admin] = ports.map((port) => `http://127.0.0.1:${port}`) as [
    string,
    string,
    string,
  ]
  await until(async () => {
    const { nodes, replication } = await status()
    return (nodes.find(({ id }) => id === name)?.placementGroups ?? 0) > 0 && replication.full
  })
  t.equal((await fetch(`${admin}/readyz`)).status, 200)
  const blobs = async () => {
    const { store } = await dataOf<{ store: { blobs: number } }>(await fetch(`${admin}/admin/status`))
    return store.blobs
  }
  const before = await blobs()
  const file = (await upload(uploads, 'kept here')) as UploadAnswer & { servers: string[] }
  t.equal(await blobs(), before + 1, 'its own copy is there when it is acknowledged')
  t.ok(file.servers.includes(name))
  t.equal(await (await fetch(file.link)).text(), 'kept here')
  t.match(file.link, downloads)
  await until(async () => (await status()).replication.full)
  await frontend.stop('SIGTERM')
  t.equal(await (await fetch(linkAt(home, file.link))).text(), 'kept here', 'others have it')
  t.equal(await (await fetch(linkAt(other, file.link))).text(), 'kept here', 'in the other region too')
})
