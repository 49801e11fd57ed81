/** The procedures of `infra/OPERATING.md` for a lost region and a lost host, by its commands. */
import { rmSync } from 'node:fs'
import { hostFolder } from '../../../infra/namespaces/layout.ts'
import { type DeployedRegions, successful } from './deployed.ts'
import type { UserAnswer, UserRequest } from './user.ts'

interface Status {
  cluster: {
    regions: { code: string; serving: string; actorHosts: number }[]
    nodes: { id: string; ready: boolean; placementGroups?: number }[]
    silent: { id: string }[]
    replication: { full: boolean }
    backup: { accounts: number }
  }
}

const patienceMs = 300_000
const upsMax = 3

/** @returns lines of figures */
export async function loseRegion(deployed: DeployedRegions, lost: string, other: string): Promise<string[]> {
  const [home, away] = [lost, other].map((region) => namesOf(deployed, region)) as [Names, Names]
  const file = await user(deployed, lost, { do: 'upload', url: `https://${home.upload}` })
  const { guestToken = '', parentFolder = '', link = '' } = file.data
  const folder = (region: string, { api }: Names) =>
    user(deployed, region, { do: 'folder', url: `https://${api}`, token: guestToken, folder: parentFolder })
  await folder(lost, home)
  await until('everything is in two regions', async () => {
    const { replication, backup } = await status(deployed, other)
    return replication.full && backup.accounts === 0
  })

  const cutMs = performance.now()
  await deployed.infra('down', '--only', lost)
  const { pathname, search } = new URL(link)
  const read = await user(deployed, other, {
    do: 'download',
    url: `https://${away.download}${pathname}${search}`,
  })
  const evacuated = await repeated(deployed, other, 'region', 'evacuate', lost)
  await folder(other, away)
  const servedMs = performance.now() - cutMs

  const upMs = performance.now()
  await deployed.infra('up', '--only', lost)
  await until('its hosts of accounts are heard', async () => {
    const { regions } = await status(deployed, other)
    return (regions.find(({ code }) => code === lost)?.actorHosts ?? 0) > 0
  })
  const backMs = performance.now() - upMs
  const returned = await repeated(deployed, other, 'region', 'return', lost)
  await folder(lost, home)
  const { regions } = await status(deployed, lost)
  const serving = regions.find(({ code }) => code === lost)?.serving
  if (serving !== lost) throw new Error(`${lost} is served by ${serving} after its return`)
  return [
    `  ${lost} without power  its links work in ${other} after ${seconds(read.ms)}`,
    `  region evacuate        ${seconds(evacuated)}; its accounts change again ${seconds(servedMs)} after the cut`,
    `  up --only ${lost}       ${seconds(backMs)}`,
    `  region return          ${seconds(returned)}`,
  ]
}

/** A host with Cassandra, NATS and a storage node, as "A host is replaced" says. */
export async function replaceHost(
  deployed: DeployedRegions,
  host: string,
  region: string,
): Promise<string[]> {
  const node = deployed.regions
    .flatMap(({ hosts }) => hosts)
    .find(({ name }) => name === host)
    ?.processes.find(({ role }) => role === 'storage-node')?.name
  if (node === undefined) throw new Error(`${host} has no storage node`)
  await deployed.infra('down', '--only', host)
  rmSync(hostFolder(deployed.layout, host), { recursive: true })
  await deployed.ctl(region, 'node', 'remove', node)

  const upMs = performance.now()
  const commands = await repeatedUp(deployed, '--only', host, '--replace')
  const tookMs = performance.now() - upMs
  const all = deployed.regions
    .flatMap(({ hosts }) => hosts)
    .filter(({ roles }) => roles.includes('cassandra')).length
  await until(`all ${all} nodes of Cassandra are UN`, async () => {
    const nodes = successful('nodetool status', await deployed.on(host, 'nodetool', 'status'))
    const states = [...nodes.matchAll(/^([UD][NLJM]) /gm)].map(([, state]) => state)
    return states.length === all && states.every((state) => state === 'UN')
  })
  const repairMs = performance.now()
  successful('nodetool repair', await deployed.on(host, 'nodetool', 'repair', '--full'))
  const repairedMs = performance.now() - repairMs
  await deployed.ctl(region, 'node', 'return', node)
  await until('its storage node holds files again', async () => {
    const { nodes, replication } = await status(deployed, region)
    return nodes.some(({ id, placementGroups = 0 }) => id === node && placementGroups > 0) && replication.full
  })
  // The seed list of the file again.
  await deployed.infra('up', '--only', host)
  return [
    `  ${host} replaced         up --only ${host} --replace ${seconds(tookMs)}, ${commands} times; nodetool repair ${seconds(repairedMs)}; ${all} nodes of Cassandra, all UN`,
  ]
}

/**
 * As the procedure says: again, if it ends before Cassandra has joined. @returns how many times it
 * was given
 */
export async function repeatedUp(deployed: DeployedRegions, ...words: string[]): Promise<number> {
  for (let commands = 1; ; commands++)
    try {
      await deployed.infra('up', ...words)
      return commands
    } catch (error) {
      if (commands === upsMax || !(error as Error).message.includes('has not joined')) throw error
    }
}

interface Names {
  api: string
  upload: string
  download: string
}

export function namesOf(deployed: DeployedRegions, region: string): Names {
  const found = deployed.regions.find(({ code }) => code === region)
  if (found === undefined) throw new Error(`there is no region ${region}`)
  return found.names
}

export async function user(
  deployed: DeployedRegions,
  region: string,
  wish: Pick<UserRequest, 'do' | 'url'> & Partial<UserRequest>,
): Promise<UserAnswer> {
  const whole: UserRequest = { token: '', folder: '', patienceMs, ...wish }
  const said = await deployed.atUsersOf(region, 'test/long/regions/user.ts', JSON.stringify(whole))
  return JSON.parse(successful(`${wish.do} beside ${region}`, said)) as UserAnswer
}

/** A guest with a folder and a file. */
export interface Uploaded {
  token: string
  folder: string
  /** Path and query of the link. */
  path: string
}

export async function uploaded(deployed: DeployedRegions, code: string): Promise<Uploaded> {
  const { upload } = namesOf(deployed, code)
  const { data } = await user(deployed, code, { do: 'upload', url: `https://${upload}` })
  const { pathname, search } = new URL(data.link ?? '')
  return { token: data.guestToken ?? '', folder: data.parentFolder ?? '', path: `${pathname}${search}` }
}

/** Changed and read there. @throws Error after the patience of a user */
export async function worksAt(
  deployed: DeployedRegions,
  code: string,
  { token, folder, path }: Uploaded,
): Promise<void> {
  const { api, download } = namesOf(deployed, code)
  await user(deployed, code, { do: 'folder', url: `https://${api}`, token, folder })
  await user(deployed, code, { do: 'download', url: `https://${download}${path}` })
}

/** The same in every region. */
export async function works(deployed: DeployedRegions, kept: Uploaded): Promise<void> {
  for (const { code } of deployed.regions) await worksAt(deployed, code, kept)
}

export async function status(deployed: DeployedRegions, region: string): Promise<Status['cluster']> {
  return (await deployed.ctl<Status>(region, 'status')).cluster
}

/** Resolves when every storage node of the deployment takes uploads: a minute after `up`. */
export async function takesUploads(deployed: DeployedRegions): Promise<void> {
  const wanted = deployed.hosts
    .flatMap(({ processes }) => processes)
    .filter(({ role }) => role === 'storage-node')
  for (const { code } of deployed.regions)
    await until('every storage node takes uploads', async () => {
      const { nodes } = await status(deployed, code)
      const taking = new Set(
        nodes.filter(({ placementGroups = 0 }) => placementGroups > 0).map(({ id }) => id),
      )
      return wanted.every(({ name }) => taking.has(name))
    })
}

/** Repeats the command until it succeeds, as `infra/OPERATING.md` says. @returns milliseconds */
async function repeated(deployed: DeployedRegions, region: string, ...words: string[]): Promise<number> {
  return until(words.join(' '), async () => {
    const { failures } = await deployed.ctl<{ failures: unknown[] | number }>(region, ...words)
    return failures === 0 || (Array.isArray(failures) && failures.length === 0)
  })
}

export async function until(what: string, holds: () => Promise<boolean>): Promise<number> {
  const startedMs = performance.now()
  for (;;) {
    let fault: unknown
    try {
      if (await holds()) return Math.round(performance.now() - startedMs)
    } catch (error) {
      fault = error
    }
    if (performance.now() - startedMs > patienceMs)
      throw new Error(`${what}: not within ${seconds(patienceMs)}; ${(fault as Error)?.message ?? ''}`)
    await new Promise((resolve) => setTimeout(resolve, 1_000))
  }
}

export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}
