/** Reports that fill the queue, so that no visitor can report anything else. */
import type { Standalone } from '../../../support/standalone.ts'
import type { Attack, AttackInput, Stage } from '../attack.ts'
import { address, request } from '../hostile.ts'

const contents = 20
/** In the queue at once, of one account. */
const ofAccountMax = 250
const networks = 40

export const reportsFlood: Attack = {
  name: 'reports of 20 files from 40 networks',
  prepare: async ({ world }: Stage): Promise<AttackInput> => {
    const owner = await world(address(69)).guest()
    const files = Array.from({ length: contents }, (_, number) => owner.file({ name: `reported ${number}` }))
    return { ids: (await Promise.all(files)).map(({ id }) => id) }
  },
  run: async (hostile) => {
    const { ids = [] } = hostile.prepared
    await hostile.each(networks, async (number) => {
      const socket = hostile.connect('api', { from: address(70 + (number % 20), number) })
      for (let turn = 0; turn < 10; turn++) {
        const path = `/report/${ids[(number + turn) % ids.length]}`
        const headers = ['Content-Type: application/x-www-form-urlencoded']
        hostile.sent()
        const body = `category=other&text=${'x'.repeat(900)}`
        if (!(await hostile.write(socket, request(path, { method: 'POST', headers, body })))) break
        // Ten a second of each network: a flood of refused requests has its own row.
        await hostile.pause(100)
      }
      socket.destroy()
    })
  },
  judge: async ({ service, tally }) => {
    const added = tally['201'] ?? 0
    const tooMany = `${added} reports of one account were added, ${ofAccountMax} at most`
    const other = await reportOfOther(service)
    return [
      ...(added === 0 ? ['no report was added'] : []),
      ...(added > ofAccountMax ? [tooMany] : []),
      ...(other === 201 ? [] : [`a report of another account's file was answered with ${other}`]),
    ]
  },
}

/** By a visitor of another network. @returns the status code */
async function reportOfOther({ api, upload }: Standalone): Promise<number> {
  const form = new FormData()
  form.append('file', new File(['another'], 'another.txt'))
  const uploaded = await fetch(`${upload}/uploadfile`, { method: 'POST', body: form })
  const { data } = (await uploaded.json()) as { data: { id: string } }
  const body = new URLSearchParams({ category: 'other' })
  const answer = await fetch(`${api}/report/${data.id}`, { method: 'POST', body })
  return answer.status
}
