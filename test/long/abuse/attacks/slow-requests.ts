/** Requests that never end: headers and bodies a byte at a time, and incomplete heads. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Attack, Listener } from '../attack.ts'
import { address, formHead, type HostileClient, json, request } from '../hostile.ts'

const open: readonly Listener[] = ['api', 'upload', 'download']
const drippers = 200

export const slowHeaders: Attack = {
  name: 'slow headers: 600 connections, a byte a second',
  run: (hostile) => drip(hostile, 1, () => 'GET /status HTTP/1.1\r\nX-Slow: '),
}

export const slowBodies: Attack = {
  name: 'slow bodies: 600 connections, a byte a second',
  run: (hostile) =>
    drip(hostile, 2, (listener) =>
      listener === 'upload'
        ? formHead('/uploadfile', { bytes: 100_000 })
        : json('/contents/createFolder', ' '.repeat(10_000)).slice(0, -9_999),
    ),
}

/**
 * Two chunked uploads that do not end. Short chunked requests of other clients must be answered.
 */
export const slowChunks: Attack = {
  name: 'slow uploads in chunks beside short requests in chunks',
  run: async (hostile) => {
    const dripping = hostile.each(2, async () => {
      const socket = hostile.connect('upload', { from: address(4), answers: 'drop' })
      await hostile.write(socket, formHead('/uploadfile'))
      while (await hostile.write(socket, '1\r\nx\r\n')) await hostile.pause(100)
      await hostile.pause(1_000)
    })
    const asking = hostile.each(1, async (number) => {
      const socket = hostile.connect('api', { from: address(5, number), answers: 'drop' })
      const answered = Promise.race([once(socket, 'data').then(() => true), hostile.pause(2_500)])
      hostile.sent()
      await hostile.write(socket, wholeInChunks)
      const isAnswered = await answered.catch(() => false)
      if (hostile.on) hostile.count(isAnswered ? 'answered' : 'silent')
      socket.destroy()
      await hostile.pause(100)
    })
    await Promise.all([dripping, asking])
  },
  judge: ({ tally }) =>
    tally.answered === undefined || tally.silent !== undefined
      ? [`${tally.silent ?? 0} short requests had no answer, ${tally.answered ?? 0} had one`]
      : [],
}

const wholeInChunks = request('/contents/search', {
  method: 'POST',
  headers: ['Content-Type: application/json', 'Transfer-Encoding: chunked'],
}).concat('2\r\n{}\r\n0\r\n\r\n')

export const halfOpen: Attack = {
  name: 'half-open requests from 3,000 addresses',
  run: async (hostile) => {
    await Promise.all(
      open.map((listener, group) =>
        hostile.hold(
          1_000,
          (number) => hostile.connect(listener, { from: address(3 + group, number), answers: 'drop' }),
          (socket) => socket.write('POST /uploadfile HTTP/1.1\r\nHost: holdfast.test\r\nContent-'),
        ),
      ),
    )
  },
}

async function drip(
  hostile: HostileClient,
  group: number,
  head: (listener: Listener) => string,
): Promise<void> {
  const sockets = new Set<Socket>()
  const dripping = hostile.each(1, async () => {
    for (const socket of sockets) socket.write('x')
    await hostile.pause(1_000)
  })
  await Promise.all([
    dripping,
    ...open.map((listener) =>
      hostile.hold(
        drippers,
        (number) => hostile.connect(listener, { from: address(group, number % 20) }),
        (socket) => {
          socket.write(head(listener))
          sockets.add(socket)
          socket.once('close', () => sockets.delete(socket))
        },
      ),
    ),
  ])
}
