/** A full queue of reports, so that no visitor can report anything. */
import type { Attack, Prepared, Stage } from '../attack.ts'
import { address, request } from '../hostile.ts'

const contents = 20
/** In the queue at once, of one account. */
const ofAccountMax = 250
const networks = 40

export const reportsFlood: Attack = {
  name: 'reports of 20 files from 40 networks',
  prepare: async ({ world }: Stage): Promise<Prepared> => {
    const owner = await world(address(69)).guest()
    const files = Array.from({ length: contents }, (_, number) => owner.file({ name: `reported ${number}` }))
    return { ids: (await Promise.all(files)).map(({ id }) => id) }
  },
  run: async (hostile) => {
    const { ids = [] } = hostile.prepared
    await hostile.each(networks, async (number) => {
      const socket = hostile.connect('api', { from: address(70 + (number % 20), number) })
      for (let turn = 0; turn < 40; turn++) {
        const path = `/report/${ids[(number + turn) % ids.length]}`
        const headers = ['Content-Type: application/x-www-form-urlencoded']
        hostile.sent()
        const body = `category=other&text=${'x'.repeat(900)}`
        if (!(await hostile.write(socket, request(path, { method: 'POST', headers, body })))) break
        await hostile.pause(25)
      }
      socket.destroy()
    })
  },
  judge: ({ tally }) => {
    const added = tally['201'] ?? 0
    if (added === 0) return ['no report was added']
    return added > ofAccountMax ? [`${added} reports of one account were added, ${ofAccountMax} at most`] : []
  },
}
