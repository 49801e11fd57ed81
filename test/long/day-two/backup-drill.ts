/** A cluster is backed up while it serves, and restored into an empty one of the same plan. */
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ctl } from '@holdfast/ctl'
import { send } from '../../acceptance/http.ts'
import { multipart } from '../../acceptance/multipart.ts'
import { sleep } from '../../acceptance/world.ts'
import { check } from '../../cluster/faults/checker.ts'
import { History } from '../../cluster/faults/history.ts'
import { Load } from '../../cluster/faults/load.ts'
import { arrive, dataOf } from '../../cluster/faults/people.ts'
import { type ClusterRegion, LocalCluster } from '../../cluster/local-cluster.ts'
import type { Drill } from './drill.ts'
import { gbPerMinute, Office, seconds } from './office.ts'
import { underLoad } from './users.ts'

const workMs = 10_000
/** About 200 MB. */
const filled = { files: 24, bytesEach: 8 * 1024 * 1024 }
const sharersEach = 20
const filesMax = 1_000

export const backupDrills: readonly Drill[] = [
  {
    name: 'a backup of the cluster is restored into an empty one',
    changesCluster: true,
    async run(office, seed) {
      const place = mkdtempSync(join(tmpdir(), 'holdfast-day-two-backup-'))
      try {
        return await backedUp(office, { seed, place })
      } finally {
        rmSync(place, { recursive: true, force: true })
      }
    },
  },
]

interface Figures {
  rows: number
  copies: number
  bytes: number
  writtenBytes: number
  unreadable: string[]
}

async function backedUp(office: Office, { seed, place }: { seed: number; place: string }): Promise<string[]> {
  const { regions, cluster } = office
  const people = await Promise.all(regions.flatMap((region) => [arrive(region), arrive(region)]))
  const history = new History()
  const load = new Load({ people, regions, history, seed, insistent: true })
  await load.prepare()
  load.start()
  await sleep(workMs)
  await load.stop()
  const sharers = (await Promise.all(regions.map((region) => sharersOf(region)))).flat()
  await office.fill(filled)

  const target = join(place, 'backup')
  const lines: string[] = []
  const took = async (what: string, words: string[], admin: string) => {
    const beganMs = performance.now()
    const { rows, copies, bytes, writtenBytes, unreadable } = await reported<Figures>(words, admin)
    const ms = performance.now() - beganMs
    if ((unreadable ?? []).length > 0) throw new Error(`${what}: ${unreadable.join('\n')}`)
    const written = writtenBytes === undefined ? '' : `, ${Math.round(writtenBytes / 2 ** 20)} MB written`
    lines.push(
      `${what}: ${rows === undefined ? '' : `${rows} rows, `}${copies} copies, ${Math.round(bytes / 2 ** 20)} MB${written} in ${seconds(ms)}, ${gbPerMinute(bytes, ms)}`,
    )
  }
  lines.push(
    await underLoad(office, { seed: seed + 1 }, async () => {
      await took('the first backup', ['backup', target], adminOf(office))
      await took('the next one', ['backup', target], adminOf(office))
    }),
  )
  lines.push(`on the disk: ${Math.round(folderBytes(target) / 2 ** 20)} MB`)
  await took('verify', ['verify', target], adminOf(office))
  const plan = readFileSync(join(cluster.dataDir, 'plan.json'))
  await cluster.stop()

  const empty = await Office.of(await LocalCluster.start({ plan }))
  try {
    const stopped = ['actor-host', 'upload', 'api'].flatMap((role) =>
      empty.regions.flatMap((region) => empty.namesOf(role, region)),
    )
    await Promise.all(stopped.map((name) => ended(empty, name)))
    await took('restore', ['cluster', 'restore', target], adminOf(empty))
    const startMs = performance.now()
    const nodes = empty.regions.flatMap((region) => empty.namesOf('storage-node', region))
    for (const name of nodes) await empty.cluster.restart(name)
    await Promise.all(stopped.map((name) => empty.cluster.restart(name)))
    await empty.until('every process is ready, and every copy is there', async () => {
      const status = await empty.status()
      return status.replication.full && status.nodes.every(({ ready }) => ready)
    })
    lines.push(`all processes started again, every copy everywhere: ${seconds(performance.now() - startMs)}`)
    await load.lookAtRest({ filesMax })
    const { acknowledged, lost, stale, wrongBytes, other } = check(history)
    const broken = [...lost, ...stale, ...wrongBytes, ...other]
    for (const sharer of sharers) broken.push(...(await faultsOf(sharer)))
    if (broken.length > 0) throw new Error(broken.slice(0, 10).join('\n'))
    lines.push(
      `restored: ${acknowledged} acknowledged changes and ${sharers.length} sharers with tokens, codes and files, 0 lost`,
    )
    const { missing, orphaned } = await empty.ctl<{ missing: number; orphaned: number }>('reconcile')
    lines.push(`ctl reconcile: ${missing} references were missing, ${orphaned} had no use`)
    const fresh = await sharerOf(empty.home, 1_000)
    if (sharers.some(({ code }) => code === fresh.code)) throw new Error(`${fresh.code} is given twice`)
    return lines
  } finally {
    await empty.close()
  }
}

interface Sharer {
  region: ClusterRegion
  token: string
  folder: string
  code: string
  md5: string
}

async function sharersOf(region: ClusterRegion): Promise<Sharer[]> {
  const sharers: Sharer[] = []
  for (let at = 0; at < sharersEach; at++) sharers.push(await sharerOf(region, at * 9_000))
  return sharers
}

/** An account whose upload made a shared folder. */
async function sharerOf(region: ClusterRegion, bytes: number): Promise<Sharer> {
  const { token } = await arrive(region)
  const content = randomBytes(bytes)
  const form = multipart([{ name: 'file', filename: 'a.bin', content }])
  const { code, body } = await send(`${region.upload}/uploadfile`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': form.contentType },
    body: form.body,
  })
  if (code !== 200) throw new Error(`an upload was answered with ${code} ${body}`)
  const { data } = JSON.parse(body.toString()) as { data: Record<string, string> }
  const { parentFolder: folder = '', parentFolderCode = '' } = data
  return { region, token, folder, code: parentFolderCode, md5: md5Of(content) }
}

async function faultsOf({ region, token, folder, code, md5 }: Sharer): Promise<string[]> {
  const faults: string[] = []
  for (const id of [folder, code]) {
    const found = await dataOf<{ children: Record<string, { link: string }> }>(
      `${region.api}/contents/${id}`,
      { token },
    ).catch((error: Error) => error)
    const link = found instanceof Error ? undefined : Object.values(found.children)[0]?.link
    if (link === undefined) {
      faults.push(`${id} of ${region.code} has no file: ${found instanceof Error ? found.message : ''}`)
      continue
    }
    const read = await send(link, { headers: { authorization: `Bearer ${token}` } })
    if (md5Of(read.body) !== md5) faults.push(`the file of ${id} has other bytes (${read.code})`)
  }
  return faults
}

function md5Of(bytes: Uint8Array): string {
  return createHash('md5').update(bytes).digest('hex')
}

/** A storage node's: it does not answer users' requests. */
function adminOf({ home }: Office): string {
  return home.processes.find(({ role }) => role === 'storage-node')?.admin as string
}

async function reported<T>(words: string[], admin: string): Promise<T> {
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

async function ended(office: Office, name: string): Promise<void> {
  const pid = await office.cluster.pidOf(name)
  process.kill(pid, 'SIGTERM')
  await office.until(`${name} has ended`, async () => !existsSync(`/proc/${pid}`))
}

function folderBytes(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0)
}
