/**
 * Regions are added to a cluster that has data. One region becomes three: both get rows of before,
 * and the second one also the journals of the first. Two become three: no region's backup changes.
 */

import { ctl } from '@holdfast/ctl'
import t, { type Test } from 'tap'
import { until } from '../support/until.ts'
import { type ClusterRegion, LocalCluster } from './local-cluster.ts'

t.setTimeout(900_000)

interface UploadAnswer {
  id: string
  link: string
  guestToken: string
  parentFolder: string
}

interface Status {
  cluster: {
    regions: { code: string; serving: string; term: number; actorHosts: number }[]
    nodes: { id: string; role: string; region: string; lagMs?: number }[]
    replication: { full: boolean }
    backup: { accounts: number }
  }
}

for (const [before, after, lost] of [
  [2, 3, 'na-nyc'],
  [1, 3, 'eu-par'],
] as const)
  t.test(`${before} become ${after}, then ${lost} is lost`, async (t) => {
    const startedMs = performance.now()
    const took = (what: string) =>
      t.comment(`${what} after ${Math.round((performance.now() - startedMs) / 1000)} s`)
    const cluster = await LocalCluster.start({ regions: before })
    t.teardown(() => cluster.stop())
    took(`${before} ready`)
    const old = await cluster.regions()
    const files = await uploadedIn(old, 'before')
    // If the hash named one of three regions, it would name another region for at least half of
    // these addresses.
    const emails = Array.from({ length: 12 }, (_, at) => `user${at}@example.org`)
    for (const [at, email] of emails.entries())
      t.equal(await signUp(old[at % old.length] as ClusterRegion, email), 'ok')
    for (const { file } of files) t.ok(await makeFolder(old[0] as ClusterRegion, file))

    await cluster.grow(after)
    took(`${after} ready`)
    const regions = await cluster.regions()
    const admin = (regions.find(({ code }) => code !== lost) as ClusterRegion).admin
    t.equal(regions.length, after)
    for (const region of regions) await worksAt(t, region, files)
    for (const region of regions)
      for (const email of emails)
        t.equal(
          await signUp(region, email),
          'error-email',
          `${email} has its account, also at ${region.code}`,
        )

    const later = await uploadedIn(regions, 'later')
    for (const region of regions) await worksAt(t, region, later)
    await until(async () => {
      const { nodes, replication, backup } = await status(admin)
      const lags = nodes.filter(({ role }) => role === 'storage-node').map(({ lagMs }) => lagMs)
      return replication.full && backup.accounts === 0 && lags.every((ms) => ms !== undefined && ms < 2_000)
    })
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    took('copied')

    const gone = regions.find(({ code }) => code === lost) as ClusterRegion
    for (const { name } of gone.processes) process.kill(await cluster.pidOf(name), 'SIGKILL')
    await until(async () =>
      (await status(admin)).regions.every(({ code, actorHosts }) => actorHosts === (code === lost ? 0 : 2)),
    )
    const reported = await said<Record<string, unknown>>(admin, 'region', 'evacuate', lost)
    t.comment(JSON.stringify(reported))
    t.match(reported, { region: lost, moved: true, complete: true, lostRows: 0, failures: [], term: 2 })
    for (const region of regions) if (region.code !== lost) await worksAt(t, region, [...files, ...later])
    took('evacuated')
  })

/** @returns an upload of a new guest in each region, with its content */
async function uploadedIn(regions: readonly ClusterRegion[], when: string) {
  const files: { file: UploadAnswer; content: string }[] = []
  for (const { code, upload } of regions) {
    const content = `${when} in ${code}`
    const form = new FormData()
    form.append('file', new Blob([content]), 'a.txt')
    const answer = await fetch(`${upload}/uploadfile`, { method: 'POST', body: form })
    files.push({ content, file: await dataOf<UploadAnswer>(answer) })
  }
  return files
}

/** The account is read and changed, and its file is read. */
async function worksAt(
  t: Test,
  region: ClusterRegion,
  files: readonly { file: UploadAnswer; content: string }[],
): Promise<void> {
  for (const { file, content } of files) {
    await until(() => makeFolder(region, file))
    const { pathname, search } = new URL(file.link)
    await until(async () => {
      return (await (await fetch(`${region.download}${pathname}${search}`)).text()) === content
    })
    t.pass(`${content}: works at ${region.code}`)
  }
}

async function makeFolder(
  { api }: ClusterRegion,
  { guestToken, parentFolder }: UploadAnswer,
): Promise<boolean> {
  const answer = await fetch(`${api}/contents/createFolder`, {
    method: 'POST',
    headers: { authorization: `Bearer ${guestToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ parentFolderId: parentFolder }),
    signal: AbortSignal.timeout(20_000),
  })
  return ((await answer.json()) as { status: string }).status === 'ok'
}

async function signUp({ api }: ClusterRegion, email: string): Promise<string> {
  const answer = await fetch(`${api}/accounts`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email }),
  })
  return ((await answer.json()) as { status: string }).status
}

async function dataOf<T>(answer: Response): Promise<T> {
  const { status, data } = (await answer.json()) as { status: string; data: T }
  if (status !== 'ok') throw new Error(`answered with ${status}`)
  return data
}

async function status(admin: string): Promise<Status['cluster']> {
  return (await said<Status>(admin, 'status')).cluster
}

async function said<T>(admin: string, ...words: string[]): Promise<T> {
  const out: string[] = []
  const err: string[] = []
  const code = await ctl([...words, '--admin', admin], {
    env: {},
    readSecret: () => '',
    print: (line) => out.push(line),
    complain: (line) => err.push(line),
  })
  if (code !== 0) throw new Error(`ctl ${words.join(' ')}: ${err.join('\n')}`)
  return JSON.parse(out.join('\n')) as T
}
