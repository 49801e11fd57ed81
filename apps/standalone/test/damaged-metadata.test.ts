/** A service whose metadata was damaged while it was stopped. */
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Level } from 'level'
import t from 'tap'
import type { Standalone } from '../src/index.ts'
import { call, dataDir, operator, startHere, uploadText } from './run.ts'

interface Guest {
  account: string
  token: string
  folder: string
  code: string
  text: string
}

async function guest({ addresses: { upload } }: Standalone, name: string): Promise<Guest> {
  const text = `the text of ${name}`
  const { status, data } = await uploadText(upload, { name: `${name}.txt`, text })
  if (status !== 'ok') throw new Error(`${name}: ${status}`)
  const { guestToken: token, parentFolder: folder, code } = data
  // A token begins with the id.
  const id = Buffer.from(token, 'base64url').toString('hex', 0, 16)
  const account = id.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5')
  return { account, token, folder, code, text }
}

/** The status of a change. */
async function changed({ addresses: { api } }: Standalone, { token, folder }: Guest): Promise<string> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ parentFolderId: folder, folderName: `f${Math.random()}` })
  return (await call(`${api}/contents/createfolder`, { method: 'POST', headers, body })).status
}

async function upload({ addresses }: Standalone, { token, folder }: Guest): Promise<string> {
  const { data } = await uploadText(addresses.upload, {
    name: 'more.txt',
    text: 'more',
    fields: { token, folderId: folder },
  })
  return (await fetch(data.link)).text()
}

const tablesOf = (rows: string) => readdirSync(rows).filter((name) => name.endsWith('.ldb'))

/** Flips one bit in the first block that has a key of the account. */
function damageRowsOf(rows: string, { account }: Guest): void {
  for (const name of tablesOf(rows)) {
    const bytes = readFileSync(join(rows, name))
    // The first bytes of a key are left out if the key before it has them, too.
    const at = bytes.indexOf(`${account.slice(4)}\0`)
    if (at < 0) continue
    bytes[at + 3] = (bytes[at + 3] as number) ^ 1
    writeFileSync(join(rows, name), bytes)
    return
  }
  throw new Error(`no table has rows of ${account}`)
}

t.test('a damaged block takes the accounts in it, and a repair gives them back', async (t) => {
  const dir = dataDir(t)
  let service = await startHere(dir)
  const guests: Guest[] = []
  for (let at = 0; at < 30; at++) guests.push(await guest(service, `guest-${at}`))
  await service.close()
  await (await startHere(dir)).close() // the log becomes a table
  t.equal(statSync(join(dir, 'master.key')).mode & 0o777, 0o600)
  const [hit] = guests as [Guest]
  damageRowsOf(join(dir, 'metadata/rows'), hit)

  service = await startHere(dir)
  t.teardown(() => service.close())
  const ctl = (...words: string[]) => operator([...words, '--admin', service.addresses.admin])
  const states = await Promise.all(guests.map((one) => changed(service, one)))
  const damaged = guests.filter((_, at) => states[at] !== 'ok')
  t.ok(damaged.includes(hit) && damaged.length <= 12, `${damaged.length} of 30`)
  t.same([...new Set(states)].sort(), ['error-unavailable', 'ok'])
  const { answer } = await ctl('status')
  t.match(answer, { metadataDamage: { files: 1, lostRanges: 1 }, lostBatches: 1, ready: true })
  t.equal(answer.accounts.quarantined.length, damaged.length)
  for (const one of guests.filter((guest) => !damaged.includes(guest)).slice(0, 5)) {
    t.equal(await upload(service, one), 'more')
    t.match(await ctl('content', 'show', one.code), { code: 0 }, 'its share code leads to it')
  }
  const repaired = await ctl('account', 'repair', hit.account)
  t.match(repaired, { code: 0, answer: { outcome: /^(?:repaired|lost)$/ } }, repaired.text)
  if (repaired.answer.outcome === 'repaired') t.equal(await changed(service, hit), 'ok')
  const made = await guest(service, 'new')
  t.equal(await changed(service, made), 'ok', 'new accounts can be made')
  t.match(await ctl('account', 'create', 'ann@example.org'), { code: 0 })
  t.notOk(
    guests.some(({ code }) => code === made.code),
    'no code is given twice',
  )
})

t.test('a table is missing: its accounts are not taken for never made, and new ones can be', async (t) => {
  const dir = dataDir(t)
  let service = await startHere(dir)
  const old = await guest(service, 'old')
  const ctl = (...words: string[]) => operator([...words, '--admin', service.addresses.admin])
  t.match(await ctl('account', 'create', 'old@example.org'), { code: 0 })
  await service.close()
  service = await startHere(dir)
  const young = await guest(service, 'young')
  await service.close()
  const rows = join(dir, 'metadata/rows')
  for (const name of tablesOf(rows)) rmSync(join(rows, name))

  service = await startHere(dir)
  t.teardown(() => service.close())
  t.equal(await changed(service, old), 'error-unavailable')
  t.match(await ctl('account', 'repair', old.account), { answer: { outcome: 'lost' } })
  t.equal(await changed(service, old), 'error-unavailable')
  t.equal(await changed(service, young), 'error-unavailable', 'it may have lost something')
  t.match(await ctl('account', 'repair', young.account), { answer: { outcome: 'repaired' } })
  t.equal(await changed(service, young), 'ok')
  const made = await guest(service, 'new')
  t.equal(await changed(service, made), 'ok')
  t.not(made.code, young.code)
  t.match(await ctl('account', 'create', 'new@example.org'), { code: 0 })
})

t.test('the master key has a copy, and is never replaced by a new one', async (t) => {
  const dir = dataDir(t)
  let service = await startHere(dir)
  const one = await guest(service, 'one')
  await service.close()
  const remove = async () => {
    const level = new Level(join(dir, 'metadata/rows'), { compression: false })
    await level.del('lsetting/master')
    await level.close()
  }
  await remove()
  service = await startHere(dir)
  t.equal(await changed(service, one), 'ok', 'its token is valid')
  await service.close()
  service = await startHere(dir)
  t.equal(await changed(service, one), 'ok', 'the row is there again')
  await service.close()
  rmSync(join(dir, 'master.key'))
  await remove()
  await t.rejects(startHere(dir), { code: 'DATA_UNUSABLE', message: /master key is lost/ })
})

t.test('a suspended account stays suspended, and codes lead on, when their rows are lost', async (t) => {
  const dir = dataDir(t)
  let service = await startHere(dir)
  const [one, other] = [await guest(service, 'one'), await guest(service, 'other')]
  const ctl = (...words: string[]) => operator([...words, '--admin', service.addresses.admin])
  t.match(await ctl('block', 'account', one.account, '--reason', 'mail 1'), { code: 0 })
  await service.close()
  await (await startHere(dir)).close() // the log becomes a table
  const rows = join(dir, 'metadata/rows')
  const damage = async (lost: RegExp) => {
    const level = new Level<string, Buffer>(rows, { compression: false, valueEncoding: 'buffer' })
    const gone = (await level.keys().all()).filter((key) => lost.test(key))
    t.ok(gone.length > 0)
    await level.batch(gone.map((key) => ({ type: 'del', key })))
    await level.close()
    const range = { after: gone[0]?.slice(0, -1), through: gone.at(-1) }
    const hex = (key = '') => Buffer.from(key, 'latin1').toString('hex')
    const lostRange = [hex(range.after), hex(range.through)]
    const record = { version: 1, files: [], lost: [lostRange], isRebuilt: false }
    writeFileSync(join(dir, 'metadata/damage.json'), JSON.stringify(record))
  }
  await damage(/^lmoderation\//)
  service = await startHere(dir)
  t.equal(await changed(service, one), 'error-blocked')
  t.equal(await changed(service, other), 'ok')
  t.match((await ctl('status')).answer, { metadataDamage: { lostRanges: 1, lostKinds: [] } })
  await service.close()

  await damage(/^n?lcode\//)
  service = await startHere(dir)
  t.teardown(() => service.close())
  const { addresses } = service
  for (const deadline = Date.now() + 30_000; Date.now() < deadline; ) {
    if ((await fetch(`${addresses.web}/d/${other.code}`)).status === 200) break
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  t.equal((await fetch(`${addresses.web}/d/${other.code}`)).status, 200, 'without a command')
  t.match((await ctl('status')).answer, { metadataDamage: { lostKinds: ['code'] } })
})
