/**
 * Networks that each do what is allowed: a few connections that list, read the answer, and ask
 * again at once. Each lists an account of its own, so that no account's turn orders them.
 */
import type { Account } from '../../../acceptance/world.ts'
import type { Attack, Stage } from '../attack.ts'
import { address, type HostileClient, request } from '../hostile.ts'

const networks = 40
const connections = 160

export const smallListings: Attack = {
  name: 'listings of 54 KB, read: 160 connections of 40 networks',
  prepare: async (stage) => ({
    paths: await eachNetwork((number) => listing(stage, { number, folders: 175, full: false })),
  }),
  run: readAgainAndAgain,
}

/** Each name takes long to escape. */
export const pages: Attack = {
  name: 'pages of 200 rows, read: 160 connections of 40 networks',
  prepare: async (stage) => ({
    paths: await eachNetwork(async (number) => {
      const { top } = await folderOfMany(stage, { number, folders: 200, name: '<'.repeat(250) })
      return `/d/${top}`
    }),
  }),
  run: readAgainAndAgain,
}

export const largeListings: Attack = {
  name: 'listings of 0.4 to 4 MiB, read: 160 connections of 40 networks',
  prepare: async (stage) => {
    const large = await eachNetwork((number) => listing(stage, { number, folders: 33, full: true }))
    const deep = await listing(stage, { number: networks, folders: 340, full: true })
    // One connection in four asks for the deep one.
    return { paths: [large, large, large, Array<string>(networks).fill(deep)].flat() }
  },
  run: readAgainAndAgain,
}

async function readAgainAndAgain(hostile: HostileClient): Promise<void> {
  const { paths = [] } = hostile.prepared
  await hostile.each(connections, async (number) => {
    const socket = hostile.connect('api', { from: address(22, number % networks), answers: 'none' })
    const listed = request(paths[number % paths.length] ?? '')
    do hostile.sent()
    while ((await hostile.write(socket, listed)) && (await hostile.answered(socket)))
    await hostile.pause(50)
  })
}

async function eachNetwork(pathOf: (number: number) => Promise<string>): Promise<string[]> {
  const paths: string[] = []
  for (let number = 0; number < networks; number++) paths.push(await pathOf(number))
  return paths
}

/**
 * Makes a public folder of folders: plain ones of 310 bytes, or full ones of 12 KB.
 *
 * @returns its path
 */
async function listing(
  stage: Stage,
  options: { number: number; folders: number; full: boolean },
): Promise<string> {
  const { top } = await folderOfMany(stage, { ...options, name: 'one of many' })
  return `/web/contents/${top}?maxdepth=16`
}

async function folderOfMany(
  { world }: Stage,
  { number, folders, name, full = false }: { number: number; folders: number; name: string; full?: boolean },
): Promise<{ top: string }> {
  const owner = await world(address(23, number)).premium()
  const top = await owner.folder({ name: 'listed by many', public: true })
  const { id } = await owner.folder({ in: top.id, name, public: true })
  if (full) await fill(owner, id)
  const ids = [id]
  while (ids.length < folders) {
    const sources = ids.slice(0, folders - ids.length)
    const copied = await owner.copy(sources, top.id, {}, { prefer: 'return=representation' })
    ids.push(...Object.values(copied.ok<Copies>()).map(({ data }) => data.id))
  }
  return { top: top.id }
}

type Copies = Record<string, { data: { id: string } }>

async function fill(owner: Account, id: string): Promise<void> {
  const tags = Array.from({ length: 50 }, (_, n) => `${'文'.repeat(22)}${100 + n}`).join(',')
  ;(await owner.update(id, 'tags', tags)).ok()
  ;(await owner.update(id, 'description', '🗂'.repeat(2_000))).ok()
}
