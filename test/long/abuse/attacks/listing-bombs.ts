/**
 * A few bytes of request for very many bytes of answer: a deep listing of long names, tags and
 * descriptions.
 */
import type { Attack, AttackInput, Stage } from '../attack.ts'
import { address, type HostileClient, request } from '../hostile.ts'

const folders = 130
const copies = 40

export const listingBombUnread: Attack = {
  name: 'listing bomb, unread: 48 connections',
  prepare: bomb,
  run: (hostile) => ask(hostile, 48, 'none'),
}

export const listingBombRead: Attack = {
  name: 'listing bomb, read: 50 connections',
  prepare: bomb,
  run: (hostile) => ask(hostile, 50, 'drop'),
}

const accounts = 24

/** Each account answers for itself, and no answer is read. */
export const manyItemsUnread: Attack = {
  name: 'listings of 8,000 items of 24 accounts, unread: 240 connections of 40 networks',
  prepare: async (stage) => {
    const paths: string[] = []
    for (let number = 0; number < accounts; number++) paths.push(await manyItems(stage, number))
    return { paths }
  },
  run: async (hostile) => {
    const { paths = [] } = hostile.prepared
    await hostile.hold(
      240,
      (number) => hostile.connect('api', { from: address(24, number % 40), answers: 'none' }),
      (socket, number) => socket.write(request(paths[number % accounts] ?? '')),
    )
  },
}

async function ask(hostile: HostileClient, connections: number, answers: 'none' | 'drop'): Promise<void> {
  const path = hostile.prepared.paths?.[0] ?? ''
  await hostile.each(connections, async (number) => {
    const socket = hostile.connect('api', { from: address(20, number % 12), answers })
    for (let turn = 0; turn < 20; turn++) {
      hostile.sent()
      if (!(await hostile.write(socket, request(path)))) break
      await hostile.pause(answers === 'none' ? 1_000 : 250)
    }
    await hostile.closed(socket, 2_000)
  })
}

/** A hundred folders of eighty: what an account of anybody may have. */
async function manyItems({ world }: Stage, number: number): Promise<string> {
  const owner = await world(address(25, number)).premium()
  const top = await owner.folder({ name: 'many', public: true })
  const tree = await owner.folder({ in: top.id, name: 'some', public: true })
  for (let made = 0; made < 80; made += 10)
    await Promise.all(Array.from({ length: 10 }, () => owner.folder({ in: tree.id, public: true })))
  for (let copied = 1; copied < 100; copied++) (await owner.copy([tree.id], top.id)).ok()
  return `/web/contents/${top.id}?maxdepth=16`
}

/**
 * Some 5,000 folders of 12 KB each, which a guest could make by hand: a tree and 40 copies of it.
 */
async function bomb({ world }: Stage): Promise<AttackInput> {
  const owner = await world(address(21)).premium()
  const top = await owner.folder({ name: 'bomb', public: true })
  const tree = await owner.folder({ in: top.id, name: '文'.repeat(255) })
  const tags = Array.from({ length: 50 }, (_, n) => `${'文'.repeat(22)}${100 + n}`).join(',')
  const one = async (number: number) => {
    const { id } = await owner.folder({ in: tree.id, name: `${number}${'🗂'.repeat(250)}` })
    ;(await owner.update(id, 'tags', tags)).ok()
    ;(await owner.update(id, 'description', '🗂'.repeat(2_000))).ok()
  }
  for (let made = 0; made < folders; made += 10)
    await Promise.all(Array.from({ length: 10 }, (_, at) => one(made + at)))
  for (let copied = 0; copied < copies; copied++) (await owner.copy([tree.id], top.id)).ok()
  return { paths: [`/web/contents/${top.id}?maxdepth=16`] }
}
