/** Wrong passwords: from many addresses on one folder, and in one burst on a direct link. */
import { sha256 } from '../../../acceptance/world.ts'
import type { Attack, AttackInput, Stage, Visit } from '../attack.ts'
import { address, request } from '../hostile.ts'

const protectedFolders = 90
const guessAddresses = 90

export const passwordGuesses: Attack = {
  name: 'password guesses from 90 addresses',
  prepare: async ({ users }: Stage): Promise<AttackInput> => {
    const [owner] = users
    if (owner === undefined) return {}
    const make = async (number: number): Promise<Visit> => {
      const { id } = await owner.folder({ public: true })
      ;(await owner.update(id, 'password', `right ${number}`)).ok()
      return { id, password: sha256(`right ${number}`) }
    }
    const visits: Visit[] = []
    for (let made = 0; made < protectedFolders; made += 10)
      visits.push(...(await Promise.all(Array.from({ length: 10 }, (_, at) => make(made + at)))))
    return { visits, ids: visits.map(({ id }) => id) }
  },
  run: async (hostile) => {
    const { ids = [] } = hostile.prepared
    await hostile.each(guessAddresses, async (number) => {
      const socket = hostile.connect('api', { from: address(40, number) })
      for (let turn = 0; turn < 10 && hostile.on; turn++) {
        const guess = sha256(`wrong ${number} ${turn} ${hostile.inputs}`)
        hostile.sent()
        if (!(await hostile.write(socket, request(`/web/contents/${ids[turn]}?password=${guess}`)))) break
        await hostile.pause(300)
      }
      socket.destroy()
    })
  },
}

const guessesPerMinute = 30

export const guessesOnADirectLink: Attack = {
  name: 'a pipelined burst of guesses on a direct link',
  short: true,
  prepare: async ({ world }: Stage): Promise<AttackInput> => {
    const owner = await world(address(41)).guest()
    const file = await owner.file({ name: 'kept', content: 'behind a password' })
    const { directLink } = await owner.link(file.id, { auth: ['ann:guess 300'] })
    return { paths: [new URL(directLink).pathname] }
  },
  run: async (hostile) => {
    const path = hostile.prepared.paths?.[0] ?? ''
    const guess = (number: number) => {
      const words = Buffer.from(`ann:guess ${number}`).toString('base64')
      return request(path, { headers: [`Authorization: Basic ${words}`] })
    }
    const burst = Array.from({ length: 1_000 }, (_, number) => guess(number)).join('')
    const socket = hostile.connect('download', { from: address(42) })
    hostile.sent(1_000)
    await hostile.write(socket, burst)
    // The same by many connections at a time, from a second address.
    await hostile.each(40, async (number) => {
      const one = hostile.connect('download', { from: address(43) })
      hostile.sent(10)
      await hostile.write(
        one,
        Array.from({ length: 10 }, (_, turn) => guess(1_000 + number * 10 + turn)).join(''),
      )
      await hostile.closed(one, 2_000)
      await hostile.pause(1_000)
    })
  },
  judge: ({ tally, seconds }) => {
    const windows = 1 + Math.ceil(seconds / 60)
    const [checked, right] = [tally['401'] ?? 0, tally['200'] ?? 0]
    return [
      ...(right > 0 ? ['the 300th guess of a burst opened the link'] : []),
      ...(checked > 2 * windows * guessesPerMinute
        ? [`${checked} guesses from two addresses were checked, ${2 * windows * guessesPerMinute} at most`]
        : []),
    ]
  },
}
