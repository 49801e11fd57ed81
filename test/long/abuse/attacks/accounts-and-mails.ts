/** Accounts by the thousand, and unwanted mails to one address. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Attack } from '../attack.ts'
import { address, json, request } from '../hostile.ts'

export const accountsFlood: Attack = {
  name: 'accounts from 20 addresses',
  run: async (hostile) => {
    const burst = request('/accounts', { method: 'POST', body: '' }).repeat(10)
    await hostile.each(20, async (number) => {
      const socket = hostile.connect('api', { from: address(60, number) })
      for (let turn = 0; turn < 50; turn++) {
        hostile.sent(10)
        if (!(await hostile.write(socket, burst))) break
        await hostile.pause(200)
      }
      socket.destroy()
    })
  },
  judge: ({ tally, seconds }) => {
    const accountsMax = 20 * 120 * (1 + Math.ceil(seconds / 60))
    const made = tally['200'] ?? 0
    return made > accountsMax ? [`20 addresses made ${made} accounts, ${accountsMax} at most`] : []
  },
}

/** Each is in memory until it is idle, or too many are there. */
export const accountsOfMany: Attack = {
  name: 'accounts of 160 networks, one after the other',
  run: async (hostile) => {
    const make = request('/accounts', { method: 'POST', body: '' })
    await hostile.each(160, async (number) => {
      const socket = hostile.connect('api', { from: address(62, number), answers: 'none' })
      do hostile.sent()
      while ((await hostile.write(socket, make)) && (await hostile.answered(socket)))
      await hostile.pause(50)
    })
  },
}

/** Maximum for one address within ten minutes, twice: a window may end while the attack runs. */
const mailsMax = 40

export const mailsFlood: Attack = {
  name: 'mails to one inbox under ever new names',
  run: async (hostile) => {
    await hostile.each(4, async (number) => {
      const socket = hostile.connect('api', { from: address(61) })
      for (let turn = 0; turn < 25; turn++) {
        const email = `victim+${number}-${turn}-${hostile.inputs}@example.test`
        hostile.sent()
        if (!(await hostile.write(socket, json('/accounts', JSON.stringify({ email }))))) break
        await hostile.pause(100)
      }
      socket.destroy()
    })
  },
  judge: async ({ service }) => {
    const files = await readdir(service.outbox).catch(() => [])
    const mails = await Promise.all(files.map((file) => readFile(join(service.outbox, file), 'utf8')))
    const sent = mails.filter((mail) => /^To:.*victim\+/im.test(mail)).length
    return sent > mailsMax ? [`${sent} mails went to one inbox for one address, ${mailsMax} at most`] : []
  },
}
