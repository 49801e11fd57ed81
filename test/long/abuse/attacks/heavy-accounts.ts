/** Accounts that use their limits to the last: searches, copies, links, expiries. */
import type { Account } from '../../../acceptance/world.ts'
import type { Attack } from '../attack.ts'
import { address, type HostileClient, json, request } from '../hostile.ts'

export const searches: Attack = {
  name: 'searches and filters on an account of 10,000',
  prepare: async ({ world }) => {
    const owner = await world(address(90)).premium()
    const top = await owner.folder({ name: 'top', public: true })
    await fill(owner, top.id, { children: 250, copies: 39 })
    return { tokens: [owner.token], ids: [top.id] }
  },
  run: async (hostile) => {
    const { ids = [], tokens = [] } = hostile.prepared
    const bearer = { headers: [`Authorization: Bearer ${tokens[0]}`] }
    const burst = [
      request(`/contents/search?contentId=${ids[0]}&searchedString=e`, bearer),
      request(`/contents/search?contentId=${ids[0]}&searchedString=nothing-like-it`, bearer),
      request(`/web/contents/${ids[0]}?contentFilter=e&sortField=name`),
      request(`/web/contents/${ids[0]}?contentFilter=%E6%96%87&maxdepth=16`),
    ].join('')
    await flood(hostile, { group: 91, connections: 10, burst, count: 4, everyMs: 100 })
  },
}

/** Normalising sorts their runs of combining marks: up to 0.4 ms for each name. */
export const slowNames: Attack = {
  name: 'names that are slow to fold, filtered and sorted by 40 networks, and 250 deleted',
  prepare: async ({ world }) => {
    const owner = await world(address(89)).premium()
    const top = await owner.folder({ name: 'slow names', public: true })
    const ids: string[] = []
    for (let made = 0; made < 250; made += 10) {
      const names = Array.from({ length: 10 }, (_, at) => `${made + at}${'\u0f75'.repeat(200)}`)
      const folders = await Promise.all(names.map((name) => owner.folder({ in: top.id, name })))
      ids.push(...folders.map(({ id }) => id))
    }
    for (let copied = 0; copied < 7; copied++) (await owner.copy(ids, top.id)).ok()
    return { tokens: [owner.token], ids: [top.id, ...ids] }
  },
  run: async (hostile) => {
    const { ids: [top, ...children] = [], tokens = [] } = hostile.prepared
    const filtered = request(`/web/contents/${top}?contentFilter=zzz&pageSize=1`)
    const sorted = request(`/web/contents/${top}?sortField=name&pageSize=1`)
    const reads = { group: 88, connections: 40, burst: filtered + sorted, count: 2, everyMs: 100 }
    const deletion = hostile.each(1, async () => {
      await hostile.pause(2_000)
      const socket = hostile.connect('api', { from: address(89) })
      hostile.sent()
      const body = JSON.stringify({ contentsId: children.join(',') })
      await hostile.write(socket, json('/contents', body, tokens[0], 'DELETE'))
      await hostile.closed(socket, 1_000)
    })
    await Promise.all([flood(hostile, reads), deletion])
  },
}

export const copies: Attack = {
  name: 'copies of a tree of 250 by one premium account',
  prepare: async ({ world }) => {
    const owner = await world(address(92)).premium()
    const tree = await owner.folder({ name: 'tree' })
    await fill(owner, tree.id, { children: 250, copies: 0 })
    return { tokens: [owner.token], ids: [tree.id, owner.root] }
  },
  run: async (hostile) => {
    const { ids = [], tokens = [] } = hostile.prepared
    const body = JSON.stringify({ contentsId: ids[0], folderId: ids[1] })
    await flood(hostile, {
      ...{ group: 93, connections: 10, count: 5, everyMs: 200 },
      burst: json('/contents/copy', body, tokens[0]).repeat(5),
    })
  },
}

export const directLinks: Attack = {
  name: 'direct links by the thousand, real and invented',
  prepare: async ({ world }) => {
    const owner = await world(address(94)).guest()
    const files = await Promise.all(Array.from({ length: 50 }, () => owner.file()))
    return { tokens: [owner.token], ids: files.map(({ id }) => id) }
  },
  run: async (hostile) => {
    const { ids = [], tokens = [] } = hostile.prepared
    const restrictions = JSON.stringify({
      sourceIpsAllowed: Array.from({ length: 50 }, (_, n) => `10.0.${n}.0/24`),
      domainsAllowed: Array.from({ length: 50 }, (_, n) => `host${n}.example.test`),
    })
    const making = hostile.each(4, async (number) => {
      const socket = hostile.connect('api', { from: address(95, number) })
      for (const id of ids) {
        hostile.sent()
        if (!(await hostile.write(socket, json(`/contents/${id}/directlinks`, restrictions, tokens[0]))))
          break
        await hostile.pause(20)
      }
      socket.destroy()
    })
    const inventing = hostile.each(6, async (number) => {
      const socket = hostile.connect('download', { from: address(96, number) })
      for (let turn = 0; turn < 100; turn++) {
        hostile.sent()
        const path = `/direct/${ids[turn % ids.length]}/${hostile.inputs}`
        if (!(await hostile.write(socket, request(path)))) break
        await hostile.pause(10)
      }
      socket.destroy()
    })
    await Promise.all([making, inventing])
  },
}

/** Each body has 45 KB of short texts, which are many objects in memory. */
export const fullDirectLinks: Attack = {
  name: 'direct links with full lists by 8 guests',
  prepare: async ({ world }) => {
    const guests = await Promise.all(
      Array.from({ length: 8 }, async (_, number) => {
        const owner = await world(address(98, number)).guest()
        const files = await Promise.all(Array.from({ length: 12 }, () => owner.file()))
        return { token: owner.token, ids: files.map(({ id }) => id) }
      }),
    )
    return { tokens: guests.map(({ token }) => token), ids: guests.flatMap(({ ids }) => ids) }
  },
  run: async (hostile) => {
    const { ids = [], tokens = [] } = hostile.prepared
    const labels = `${'a'.repeat(32)}.${'b'.repeat(32)}.${'c'.repeat(32)}`
    const entries = (entryOf: (n: number) => string) => Array.from({ length: 100 }, (_, n) => entryOf(n))
    await hostile.each(8, async (number) => {
      const socket = hostile.connect('api', { from: address(99, number) })
      for (const id of ids.slice(number * 12, number * 12 + 12)) {
        const turn = hostile.inputs
        const lists = JSON.stringify({
          sourceIpsAllowed: entries((n) => `2001:db8:${(turn % 65_536).toString(16)}:${n}::/64`),
          domainsAllowed: entries((n) => `allowed${turn}.n${n}.${labels}.test`),
          domainsBlocked: entries((n) => `blocked${turn}.n${n}.${labels}.test`),
          auth: entries((n) => `user${turn}-${n}:secret${n}`),
        })
        hostile.sent()
        if (!(await hostile.write(socket, json(`/contents/${id}/directlinks`, lists, tokens[number])))) break
        await hostile.pause(10)
      }
      socket.destroy()
    })
  },
}

export const expiries: Attack = {
  name: 'expiries of 400 folders, moved again and again',
  prepare: async ({ world }) => {
    const owner = await world(address(97)).guest()
    const ids: string[] = []
    for (let made = 0; made < 400; made += 20)
      ids.push(...(await Promise.all(Array.from({ length: 20 }, () => owner.folder()))).map(({ id }) => id))
    return { tokens: [owner.token], ids }
  },
  run: async (hostile) => {
    const { ids = [], tokens = [] } = hostile.prepared
    // Three in four stay in the future; the fourth fires within the attack, all in the same second.
    const firing = Math.floor(Date.now() / 1_000) + 6
    await hostile.each(4, async (number) => {
      const socket = hostile.connect('api', { from: address(98, number) })
      for (const [at, id] of ids.entries()) {
        hostile.sent()
        const attributeValue = at % 4 === 0 ? firing : firing + 60 + (hostile.inputs % 600)
        const body = JSON.stringify({ attribute: 'expiry', attributeValue })
        if (!(await hostile.write(socket, json(`/contents/${id}/update`, body, tokens[0], 'PUT')))) break
        await hostile.pause(15)
      }
      socket.destroy()
    })
  },
}

/** A folder with children, and the same again below it by copies. */
async function fill(
  owner: Account,
  folder: string,
  { children, copies: again }: { children: number; copies: number },
): Promise<void> {
  const tree = await owner.folder({ in: folder, name: 'tree of many' })
  for (let made = 0; made < children; made += 10)
    await Promise.all(
      Array.from({ length: 10 }, (_, at) => owner.folder({ in: tree.id, name: `child ${made + at}` })),
    )
  for (let copied = 0; copied < again; copied++) (await owner.copy([tree.id], folder)).ok()
}

interface Flood {
  group: number
  connections: number
  burst: string
  /** Requests in a burst. */
  count: number
  everyMs: number
}

async function flood(
  hostile: HostileClient,
  { group, connections, burst, count, everyMs }: Flood,
): Promise<void> {
  await hostile.each(connections, async (number) => {
    const socket = hostile.connect('api', { from: address(group, number) })
    for (let turn = 0; turn < 20; turn++) {
      hostile.sent(count)
      if (!(await hostile.write(socket, burst))) break
      await hostile.pause(everyMs)
    }
    await hostile.closed(socket, 1_000)
  })
}
