/**
 * Accounts that write so much that the metadata store needs new files all the time: beside attacks
 * on descriptors.
 */
import type { Socket } from 'node:net'
import type { AttackInput, Stage } from '../attack.ts'
import { address, type HostileClient, json } from '../hostile.ts'

const writers = 8
const group = 64
/** The writers have their connections before anything takes descriptors. */
export const writersAheadMs = 500

export async function busyWriters({ world }: Stage): Promise<AttackInput> {
  const numbers = Array.from({ length: writers }, (_, number) => number)
  const owners = await Promise.all(numbers.map((number) => world(address(group, number)).guest()))
  const folders = await Promise.all(owners.map((owner) => owner.folder()))
  return { tokens: owners.map(({ token }) => token), ids: folders.map(({ id }) => id) }
}

/** Each sets a description of 6 KB, again as soon as that is acknowledged. */
export async function writeMuch(hostile: HostileClient): Promise<void> {
  const { tokens = [], ids = [] } = hostile.prepared
  await hostile.each(writers, async (number) => {
    const socket = hostile.connect('api', { from: address(group, number) })
    for (let turn = 0; turn < 200; turn++) {
      const attributeValue = `${turn}${'文'.repeat(1_990)}`
      const body = JSON.stringify({ attribute: 'description', attributeValue })
      hostile.sent()
      const update = json(`/contents/${ids[number]}/update`, body, tokens[number], 'PUT')
      if (!(await hostile.write(socket, update))) break
      await Promise.race([answered(socket), hostile.pause(2_000)])
    }
    socket.destroy()
    await hostile.pause(100)
  })
}

function answered(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      socket.off('data', done).off('close', done)
      resolve()
    }
    socket.once('data', done).once('close', done)
  })
}
