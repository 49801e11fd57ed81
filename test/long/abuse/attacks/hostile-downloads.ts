/** Unread and slow downloads, storms of ranges, archives without a reader. */
import type { Socket } from 'node:net'
import type { Attack, AttackInput, Stage } from '../attack.ts'
import { address, json, request } from '../hostile.ts'

const largeBytes = 8 * 1024 * 1024

export const unreadDownloads: Attack = {
  name: 'unread downloads: 3,000 from 12 addresses',
  prepare: largeFile,
  run: async (hostile) => {
    const get = request(hostile.prepared.paths?.[0] ?? '')
    await hostile.hold(
      3_000,
      (number) => hostile.connect('download', { from: address(70, number % 12), answers: 'none' }),
      (socket) => socket.write(get),
    )
  },
}

/**
 * They come within 3 s: in the first moments each takes megabytes at full speed, which is work and
 * not slowness.
 */
export const slowReaders: Attack = {
  name: 'slow readers from 300 networks, a byte a second',
  prepare: largeFile,
  run: async (hostile) => {
    const get = request(hostile.prepared.paths?.[0] ?? '')
    const sockets = new Set<Socket>()
    const reading = hostile.each(1, async () => {
      for (const socket of sockets) {
        socket.resume()
        // An empty line may precede a request. It fails once the connection is closed.
        socket.write('\r\n')
      }
      await hostile.pause(1_000)
    })
    const groups = Array.from({ length: 10 }, async (_, group) => {
      await hostile.pause(group * 300)
      await hostile.hold(
        30,
        (number) => hostile.connect('download', { from: address(76, group * 30 + number), answers: 'byte' }),
        (socket) => {
          socket.write(get)
          sockets.add(socket)
          socket.once('close', () => sockets.delete(socket))
        },
      )
    })
    await Promise.all([reading, ...groups])
  },
}

export const rangeStorms: Attack = {
  name: 'storms of small, many and overlapping ranges',
  prepare: largeFile,
  run: async (hostile) => {
    const path = hostile.prepared.paths?.[0] ?? ''
    const lists = [
      Array.from({ length: 500 }, (_, n) => `${n * 16_000}-${n * 16_000}`).join(','),
      Array.from({ length: 500 }, () => '0-').join(','),
      Array.from({ length: 500 }, (_, n) => `${n}-${largeBytes - n}`).join(','),
      `-1,${Array.from({ length: 900 }, (_, n) => `-${n}`).join(',')}`,
      '0-0',
      `${largeBytes - 1}-`,
      '9999999999999999999-99999999999999999999',
    ]
    await hostile.each(10, async (number) => {
      const socket = hostile.connect('download', { from: address(71, number), answers: 'drop' })
      const burst = lists.map((list) => request(path, { headers: [`Range: bytes=${list}`] }))
      for (let turn = 0; turn < 10; turn++) {
        hostile.sent(burst.length)
        if (!(await hostile.write(socket, burst.join('')))) break
        await hostile.pause(200)
      }
      await hostile.closed(socket, 1_000)
    })
  },
}

/** Each range lies in a record of its own, which is checked to read one byte. */
export const rangesOfBytes: Attack = {
  name: '64 ranges of a byte: 160 connections of 40 networks',
  prepare: largeFile,
  run: async (hostile) => {
    const far = largeBytes / 64
    const list = Array.from({ length: 64 }, (_, n) => `${n * far}-${n * far}`).join(',')
    const get = request(hostile.prepared.paths?.[0] ?? '', { headers: [`Range: bytes=${list}`] })
    await hostile.each(160, async (number) => {
      const socket = hostile.connect('download', { from: address(77, number % 40), answers: 'none' })
      do hostile.sent()
      while ((await hostile.write(socket, get)) && (await hostile.answered(socket)))
      await hostile.pause(50)
    })
  },
}

export const archives: Attack = {
  name: 'archives, unread and aborted: 100 connections',
  prepare: async ({ world }: Stage): Promise<AttackInput> => {
    const owner = await world(address(72)).guest()
    const folder = await owner.folder({ name: 'archive', public: true })
    const content = Buffer.alloc(100_000, 'archive')
    for (let made = 0; made < 300; made += 10)
      await Promise.all(
        Array.from({ length: 10 }, (_, at) =>
          owner.file({ in: folder.id, name: `file ${made + at}`, content }),
        ),
      )
    const { directLink } = await owner.link(folder.id)
    return { paths: [new URL(directLink).pathname] }
  },
  run: async (hostile) => {
    const get = request(hostile.prepared.paths?.[0] ?? '')
    const unread = hostile.hold(
      60,
      (number) => hostile.connect('download', { from: address(73, number % 6), answers: 'none' }),
      (socket) => socket.write(get),
    )
    const aborted = hostile.each(40, async (number) => {
      const socket = hostile.connect('download', { from: address(74, number % 8), answers: 'drop' })
      hostile.sent()
      await hostile.write(socket, get)
      await hostile.pause(50)
      socket.resetAndDestroy()
    })
    await Promise.all([unread, aborted])
  },
}

/** Each new name makes another archive, and clients that began an earlier one may resume it. */
export const renamedArchives: Attack = {
  name: 'archives of nested folders, renamed all the time, unread: 240 connections of 40 networks',
  prepare: async ({ world }: Stage): Promise<AttackInput> => {
    const owner = await world(address(78)).premium()
    const top = await owner.folder({ name: 'renamed', public: true })
    const tree = await owner.folder({ in: top.id, name: 'tree' })
    for (let made = 0; made < 80; made += 10)
      await Promise.all(
        Array.from({ length: 10 }, (_, at) =>
          owner.folder({ in: tree.id, name: `${made + at}${'n'.repeat(100)}` }),
        ),
      )
    for (let copied = 1; copied < 100; copied++) (await owner.copy([tree.id], top.id)).ok()
    const { directLink } = await owner.link(top.id)
    return { tokens: [owner.token], ids: [tree.id], paths: [new URL(directLink).pathname] }
  },
  run: async (hostile) => {
    const { tokens = [], ids = [], paths = [] } = hostile.prepared
    const get = request(paths[0] ?? '')
    const renamed = hostile.each(1, async () => {
      const socket = hostile.connect('api', { from: address(78), answers: 'none' })
      for (let turn = 0; turn < 200; turn++) {
        const body = JSON.stringify({ attribute: 'name', attributeValue: `tree ${hostile.inputs}` })
        hostile.sent()
        if (!(await hostile.write(socket, json(`/contents/${ids[0]}/update`, body, tokens[0], 'PUT')))) break
        if (!(await hostile.answered(socket))) break
        await hostile.pause(10)
      }
      socket.destroy()
    })
    const unread = hostile.hold(
      200,
      (number) => hostile.connect('download', { from: address(79, number % 40), answers: 'none' }),
      (socket) => socket.write(get),
    )
    const aborted = hostile.each(40, async (number) => {
      const socket = hostile.connect('download', { from: address(79, number), answers: 'none' })
      hostile.sent()
      await hostile.write(socket, get)
      await begun(socket)
      socket.resetAndDestroy()
      await hostile.pause(50)
    })
    await Promise.all([renamed, unread, aborted])
  },
}

/** Waits for the first bytes of an answer. */
async function begun(socket: Socket): Promise<void> {
  if (socket.destroyed) return
  await new Promise<void>((resolve) => {
    socket.once('data', () => resolve()).once('close', () => resolve())
    socket.resume()
  })
}

async function largeFile({ world }: Stage): Promise<AttackInput> {
  const owner = await world(address(75)).guest()
  const { id } = await owner.file({ name: 'large', content: Buffer.alloc(largeBytes, 'unread') })
  const { directLink } = await owner.link(id)
  return { paths: [new URL(directLink).pathname] }
}
