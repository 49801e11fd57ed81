/** Requests that never end: headers and bodies a byte at a time, and incomplete heads. */
import type { Socket } from 'node:net'
import type { Attack, Listener } from '../attack.ts'
import { address, formHead, type Hostile, json } from '../hostile.ts'

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

async function drip(hostile: Hostile, group: number, head: (listener: Listener) => string): Promise<void> {
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
