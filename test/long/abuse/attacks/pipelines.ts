/** Many requests in one packet: listings of a folder while its owner works, and plain floods. */
import type { Attack, AttackInput, Stage } from '../attack.ts'
import { address, request } from '../hostile.ts'

const children = 600

export const pipelinedListings: Attack = {
  name: 'pipelined listings of one account from 10 addresses',
  prepare: async ({ users }: Stage): Promise<AttackInput> => {
    const [owner] = users
    if (owner === undefined) return {}
    const folder = await owner.folder({ name: 'shared with everybody', public: true })
    for (let made = 0; made < children; made += 20)
      await Promise.all(Array.from({ length: 20 }, () => owner.folder({ in: folder.id })))
    return { paths: [`/web/contents/${folder.id}?maxdepth=16`] }
  },
  run: async (hostile) => {
    const path = hostile.prepared.paths?.[0] ?? ''
    const burst = request(path).repeat(100)
    await hostile.each(10, async (number) => {
      const socket = hostile.connect('api', { from: address(30, number), answers: 'drop' })
      for (let turn = 0; turn < 4; turn++) {
        hostile.sent(100)
        await hostile.write(socket, burst)
      }
      await hostile.closed(socket, 4_000)
    })
  },
}

/** As many as a connection may send ahead; the next ones when all are answered. */
export const pipelinedByMany: Attack = {
  name: '60 requests ahead: 160 connections of 40 networks',
  run: async (hostile) => {
    const ahead = 60
    const burst = request('/status').repeat(ahead)
    await hostile.each(160, async (number) => {
      const socket = hostile.connect('api', { from: address(32, number % 40), answers: 'none' })
      let going = true
      while (going) {
        hostile.sent(ahead)
        going = await hostile.write(socket, burst)
        if (going) going = await hostile.allAnswered(socket, ahead)
      }
      await hostile.pause(50)
    })
  },
}

export const pipelinedGets: Attack = {
  name: 'pipelined GETs: 20 connections with 500 each',
  run: async (hostile) => {
    const paths = ['/status', '/', '/regions', '/openapi.json', '/d/AAAAAAAA']
    await hostile.each(20, async (number) => {
      const burst = request(paths[number % paths.length] ?? '/').repeat(500)
      const socket = hostile.connect('api', { from: address(31, number) })
      hostile.sent(500)
      await hostile.write(socket, burst)
      await hostile.closed(socket, 1_000)
    })
  },
}
