/** A region with many accounts is lost, evacuated, and returns. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { send } from '../../acceptance/http.ts'
import { multipart } from '../../acceptance/multipart.ts'
import { arrive, dataOf, type Person } from '../../cluster/faults/people.ts'
import type { Drill } from './drill.ts'
import { type Office, seconds } from './office.ts'
import { compareSeeded, seedAccounts } from './seeded-accounts.ts'
import { underLoad } from './users.ts'

/** Accounts with folders and a file, compared afterwards. */
const sampled = 40

interface Stored {
  link: string
  content: Buffer
}

/** Time for copies of what users uploaded meanwhile. One machine runs everything. */
const copiesMs = 900_000

export const regionDrills: readonly Drill[] = [
  {
    name: 'a region with many accounts is evacuated and returns',
    changesCluster: true,
    async run(office, seed, { accounts, report }) {
      const { home, other } = office
      const people: Person[] = []
      const files: Stored[] = []
      for (let at = 0; at < sampled; at++) {
        const person = await arrive(other)
        await makeFolder(other.api, person)
        files.push(await upload(other.upload, person))
        people.push(person)
      }
      const seedingMs = performance.now()
      const seeded = await seedAccounts(office, other, accounts)
      const lines: string[] = []
      const printLine = (line: string) => {
        lines.push(line)
        report(`    … ${line}`)
      }
      printLine(`${accounts} accounts written in ${seconds(performance.now() - seedingMs)}`)
      await office.until('everything is in two regions', async () => {
        const { replication, backup } = await office.status()
        return replication.full && backup.accounts === 0
      })
      const before = await Promise.all(people.map((person) => foldersOf(office, person)))
      const users = await underLoad(office, { seed, regions: [home] }, async () => {
        for (const { name } of other.processes) process.kill(await office.cluster.pidOf(name), 'SIGSTOP')
        await office.until(
          'the loss is seen',
          async () => (await office.status()).regions[1]?.actorHosts === 0,
        )
        printLine(await timed('evacuate', () => moved(office, 'evacuate')))
        for (const person of people) await writes(office, person)
        // Servers first. Then the processes of Holdfast begin again, as after a loss of power.
        for (const isServer of [true, false])
          for (const { name, admin } of other.processes)
            if ((admin === null) === isServer) process.kill(await office.cluster.pidOf(name), 'SIGCONT')
        for (const { name, admin } of other.processes) if (admin !== null) await office.cluster.restart(name)
        const heard = async () => (await office.status()).regions[1]?.actorHosts === 2
        await office.until('its hosts are heard', heard)
        const fullMs = await office.until('every file has its copies', () => office.isFull(), copiesMs)
        printLine(`its files have their copies again ${seconds(fullMs)} after its hosts are heard`)
        printLine(await timed('return', () => moved(office, 'return')))
        for (const [at, person] of people.entries())
          if ((await foldersOf(office, person)) !== (before[at] as number) + 1)
            throw new Error(`${person.id} does not have all of its folders`)
        for (const file of files) await assertStored(other.download, file)
        const compared = await compareSeeded(office, other, seeded)
        lines.push(`${compared} of the accounts written and ${files.length} files are as they were`)
      })
      return [...lines, users]
    },
  },
]

function makeFolder(api: string, { token, root }: Person): Promise<unknown> {
  return dataOf(`${api}/contents/createFolder`, { method: 'POST', json: { parentFolderId: root }, token })
}

async function upload(front: string, { token, root }: Person): Promise<Stored> {
  const content = randomBytes(10_000)
  const form = multipart([
    { name: 'folderId', value: root },
    { name: 'file', filename: 'kept.bin', content },
  ])
  const { code, body } = await send(`${front}/uploadfile`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': form.contentType },
    body: form.body,
  })
  assert.equal(code, 200, body.toString())
  return { link: (JSON.parse(body.toString()) as { data: { link: string } }).data.link, content }
}

async function assertStored(front: string, { link, content }: Stored): Promise<void> {
  const { pathname, search } = new URL(link)
  const { code, body } = await send(front + pathname + search)
  assert.equal(code, 200, `${link} answered ${code}`)
  assert.ok(content.equals(body), `${link} has other bytes`)
}

/** It is opened by its new host, for which the first call may wait. */
async function writes({ home, until }: Office, person: Person): Promise<void> {
  await until('an account of the lost region is changed', async () => {
    await makeFolder(home.api, person)
    return true
  })
}

async function foldersOf({ home }: Office, { id, token }: Person): Promise<number> {
  const { statsCurrent } = await dataOf<{ statsCurrent: { folderCount: number } }>(
    `${home.api}/accounts/${id}`,
    { token },
  )
  return statsCurrent.folderCount
}

/** @returns how many accounts */
async function moved(office: Office, what: 'evacuate' | 'return'): Promise<number> {
  const { code } = office.other
  const words = what === 'evacuate' ? [what, code, '--fenced'] : [what, code]
  for (;;) {
    const reported = await office.ctl<{ accounts: number; failures: unknown[]; lostRows: number }>(
      'region',
      ...words,
    )
    if (reported.lostRows > 0) throw new Error(`${reported.lostRows} rows are lost`)
    if (reported.failures.length === 0) return reported.accounts
  }
}

async function timed(what: string, work: () => Promise<number>): Promise<string> {
  const beganMs = performance.now()
  const accounts = await work()
  const ms = performance.now() - beganMs
  const rate = (accounts / ms) * 1_000
  return `region ${what}: ${accounts} accounts in ${seconds(ms)}, ${rate.toFixed(0)} a second, none lost`
}
