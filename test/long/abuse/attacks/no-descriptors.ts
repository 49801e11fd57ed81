/**
 * No descriptor is left, whatever keeps the connections within bounds: the limit of the running process is lowered to
 * what it has open while accounts write so much that the stores need new files. Nothing acknowledged may be lost,
 * and all must be as before without a restart once the limit is back.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Attack, Prepared, Stage } from '../attack.ts'
import { address, type Hostile, json } from '../hostile.ts'

const run = promisify(execFile)
const writers = 8
const openFilesMax = 1_024

export const noDescriptors: Attack = {
  name: 'no descriptor is left',
  byOperator: true,
  short: true,
  prepare: async ({ world }: Stage): Promise<Prepared> => {
    const owners = await Promise.all(Array.from({ length: writers }, (_, n) => world(address(64, n)).guest()))
    const folders = await Promise.all(owners.map((owner) => owner.folder()))
    return { tokens: owners.map(({ token }) => token), ids: folders.map(({ id }) => id) }
  },
  run: async (hostile) => {
    const { pid } = hostile.target
    await limitTo(pid, 16)
    try {
      await write(hostile)
    } finally {
      await limitTo(pid, openFilesMax)
    }
  },
}

async function limitTo(pid: number | undefined, files: number): Promise<void> {
  await run('prlimit', ['--pid', String(pid), `--nofile=${files}:`])
}

async function write(hostile: Hostile): Promise<void> {
  const { tokens = [], ids = [] } = hostile.prepared
  await hostile.each(writers, async (number) => {
    const socket = hostile.connect('api', { from: address(64, number) })
    for (let turn = 0; turn < 200; turn++) {
      const attributeValue = `${turn}${'文'.repeat(1_990)}`
      const body = JSON.stringify({ attribute: 'description', attributeValue })
      hostile.sent()
      const update = json(`/contents/${ids[number]}/update`, body, tokens[number], 'PUT')
      if (!(await hostile.write(socket, update))) break
      await hostile.pause(12)
    }
    socket.destroy()
    await hostile.pause(100)
  })
}
