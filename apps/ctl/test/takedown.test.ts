/** Contents and accounts are found and deleted in all accounts, and restored, over one service. */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '@holdfast/http-kit'
import { readConfig, type Standalone, startStandalone } from '@holdfast/standalone'
import t from 'tap'
import { ctl } from '../src/index.ts'

const dataDir = mkdtempSync(join(tmpdir(), 'holdfast-takedown-'))
t.teardown(() => rmSync(dataDir, { recursive: true, force: true }))
const env = {
  HOLDFAST_API_PORT: '0',
  HOLDFAST_UPLOAD_PORT: '0',
  HOLDFAST_DOWNLOAD_PORT: '0',
  HOLDFAST_ADMIN_PORT: '0',
  HOLDFAST_RATE_LIMITS: 'off',
  HOLDFAST_UPLOAD_RECORD_DAYS: '0',
  HOLDFAST_DATA_DIR: dataDir,
  HOLDFAST_ADMIN_TOKEN: 'operator-secret-0123456789',
}
const { config, secrets } = readConfig(env, { readSecret: () => '' })
const service: Standalone = await startStandalone({ config, secrets, log: createLog({ level: 'silent' }) })
t.teardown(() => service.close())
const { upload, download, api, admin } = service.addresses

async function run(words: string, ...rest: string[]) {
  const out: string[] = []
  const err: string[] = []
  const code = await ctl([...words.split(' '), ...rest], {
    env: {
      USER: 'ann',
      HOLDFAST_ADMIN_PORT: new URL(admin).port,
      HOLDFAST_ADMIN_TOKEN: env.HOLDFAST_ADMIN_TOKEN,
    },
    readSecret: () => '',
    print: (line) => out.push(line),
    complain: (line) => err.push(line),
  })
  return { code, out: out.join('\n'), err: err.join('\n') }
}

interface UploadAnswer {
  id: string
  guestToken: string
  parentFolder: string
}

/** Uploads as a new guest, or as the guest of an earlier upload. */
async function send(text: string, name: string, to?: UploadAnswer): Promise<UploadAnswer> {
  const form = new FormData()
  if (to !== undefined) form.set('folderId', to.parentFolder)
  form.set('file', new File([text], name))
  const headers = to === undefined ? {} : { authorization: `Bearer ${to.guestToken}` }
  const answer = await fetch(`${upload}/uploadfile`, { method: 'POST', body: form, headers })
  const { data } = (await answer.json()) as { data: UploadAnswer }
  return { ...data, guestToken: data.guestToken ?? to?.guestToken }
}

async function codeOf({ id, guestToken }: UploadAnswer): Promise<number> {
  const headers = { authorization: `Bearer ${guestToken}` }
  return (await fetch(`${download}/download/${id}/x`, { headers })).status
}

const codesOf = (sent: readonly UploadAnswer[]) => Promise.all(sent.map(codeOf))
const md5Of = (text: string) => createHash('md5').update(text).digest('hex')
const shown = async (name: string) => JSON.parse((await run(`content show ${name}`)).out)
const linesOf = ({ out }: { out: string }) => out.split('\n').filter((line) => line !== '')
const hitsOf = async (words: string) => linesOf(await run(words)).map((line) => JSON.parse(line))
const idsOf = async (words: string) => (await hitsOf(words)).map(({ id }) => id).sort()
/** The act that a line begins with. */
const actOf = (line = '') => line.split(' ')[0] ?? ''

t.test('files are found in all accounts by hash and by a part of the name', async (t) => {
  const first = await send('wanted', 'Wanted One.pdf')
  const again = await send('wanted', 'another copy.pdf', first)
  const other = await send('wanted', 'wanted two.pdf')
  const harmless = await send('harmless', 'Unwanted.pdf')
  const { md5, blake3, account } = await shown(other.id)
  const all = [first, again, other].map(({ id }) => id).sort()
  t.equal(md5, md5Of('wanted'))
  t.same(await idsOf(`content find --hash ${md5.toUpperCase()}`), all)
  t.same(await idsOf(`content find --hash ${blake3}`), all)
  t.match(
    (await hitsOf(`content find --hash ${md5}`)).find(({ id }) => id === other.id),
    { account, name: 'wanted two.pdf', type: 'file', size: 6, inBin: false },
  )
  t.same(await hitsOf(`content find --hash ${md5Of('nothing')}`), [])
  t.same(await idsOf('content find --all wanted'), [first.id, other.id, harmless.id].sort())
  t.same(await hitsOf('content find --all nowhere'), [])
  t.match(await run('content find --hash 12'), { code: 1, err: /md5 or a BLAKE3/ })
  t.match(await run('content find --all'), { code: 2 })
  t.match(await run('content find --all wanted --after nowhere'), { code: 1, err: /no such place/ })
})

t.test('a search continues where a step ended', async (t) => {
  const guest = await send('piece', 'piece 0')
  for (let more = 1; more < 250; more++) await send('piece', `piece ${more}`, guest)
  await send('piece', 'piece of another')
  const headers = { authorization: `Bearer ${env.HOLDFAST_ADMIN_TOKEN}` }
  for (const sought of [`hash=${md5Of('piece')}`, 'text=piece']) {
    const names = new Set<string>()
    let pieces = 0
    for (let after = ''; after !== 'null'; pieces++) {
      const path = `${admin}/admin/contents/find?${sought}${after === '' ? '' : `&after=${after}`}`
      const { data } = (await (await fetch(path, { headers })).json()) as {
        data: { hits: { name: string }[]; next: string | null }
      }
      for (const { name } of data.hits) {
        t.notOk(names.has(name), `${name} comes once`)
        names.add(name)
      }
      after = String(data.next)
    }
    t.equal(names.size, 251)
    t.ok(pieces > 1, `${pieces} pieces`)
  }
  const deleted = await run(`content delete --hash ${md5Of('piece')}`)
  t.match(deleted.out, /^\S+ 251 deleted$/)
  t.same(await hitsOf(`content find --hash ${md5Of('piece')}`), [])
  t.match((await run(`undo ${actOf(deleted.out)}`)).out, /^\S+ 251 changed$/)
  t.equal((await hitsOf(`content find --hash ${md5Of('piece')}`)).length, 251)
})

t.test('all copies of a hash are deleted, and come back by an undo', async (t) => {
  const copies = [await send('vile', 'a.txt'), await send('vile', 'b.txt')]
  copies.push(await send('vile', 'c.txt', copies[0]))
  const { blake3, parentFolder } = await shown(copies[2]?.id as string)
  t.same(await codesOf(copies), [200, 200, 200])
  const deleted = await run(`content delete --hash ${blake3} --block --reason mail`)
  const [blocked = '', line = ''] = linesOf(deleted)
  t.match(blocked, /^\S+ 1 blocked$/)
  t.match(line, /^\S+ 3 deleted$/)
  t.same(await codesOf(copies), [404, 404, 404])
  t.match(JSON.parse((await run('acts --count 2')).out), [
    { id: actOf(line), kind: 'delete', what: `content ${blake3} of all accounts`, reason: 'mail' },
    { id: actOf(blocked), kind: 'block' },
  ])
  const undone = await run(`undo ${actOf(line)}`)
  t.match(undone, { code: 0, out: /^\S+ 3 changed$/ })
  t.same(await codesOf(copies), [451, 451, 451], 'the hash is still blocked')
  t.match(await run(`undo ${actOf(blocked)}`), { code: 0 })
  t.same(await codesOf(copies), [200, 200, 200])
  t.equal((await shown(copies[2]?.id as string)).parentFolder, parentFolder)
  t.match(await run(`undo ${actOf(line)}`), { code: 0, out: /0 changed, 3 were so already/ })
  t.match(await run(`undo ${actOf(undone.out)}`), { code: 1, err: /cannot be undone/ })
  t.match(await run('content delete --hash 12'), { code: 1, err: /md5 or a BLAKE3/ })
  t.match(await run(`content delete ${copies[0]?.id} --block`), { code: 2 })

  const final = await run(`content delete --hash ${blake3} --final`)
  t.match(final, { code: 0, out: /^\S+ 3 deleted$/ })
  t.match(await run(`undo ${actOf(final.out)}`), { code: 1, err: /cannot be undone/ })
  t.same(await codesOf(copies), [404, 404, 404])
})

t.test('an operator deletes content without the bin, and undoes it', async (t) => {
  const file = await send('one', 'one.txt')
  await run(`account bin ${(await shown(file.id)).account} on`)
  const { out } = await run(`content delete ${file.parentFolder}`)
  t.match(out, /^\S+ 1 deleted$/)
  t.equal(await codeOf(file), 404)
  t.match(await run(`content show ${file.id}`), { code: 1, err: /no such content/ })
  t.match(await run(`undo ${actOf(out)}`), { code: 0, out: /1 changed/ })
  t.equal(await codeOf(file), 200)
  const final = await run(`content delete ${file.id} --final`)
  t.match(await run(`undo ${actOf(final.out)}`), { code: 1, err: /cannot be undone/ })
})

t.test('a deleted account answers nothing, and an undo gives all back', async (t) => {
  const file = await send('theirs', 'theirs.txt')
  const { account } = await shown(file.id)
  const headers = { authorization: `Bearer ${file.guestToken}` }
  const seen = async () => (await fetch(`${api}/accounts/getid`, { headers })).status
  t.equal(await seen(), 200)
  const deleted = await run(`account delete ${account} --reason fraud`)
  t.match(deleted, { code: 0, out: /its contents end \d{4}-/ })
  t.same([await codeOf(file), await seen()], [451, 451])
  t.equal((await run('blocked account')).out, account)
  const { endTime } = JSON.parse((await run(`account show ${account}`)).out)
  t.ok(Math.abs(endTime - Date.now() / 1000 - 30 * 86_400) < 60)
  t.match(JSON.parse((await run('acts --count 1')).out), [
    { id: actOf(deleted.out), kind: 'delete', account, reason: 'fraud' },
  ])
  await run(`unblock account ${account}`)
  t.equal(await codeOf(file), 451, 'to lift the suspension alone does not bring it back')
  t.match(await run(`undo ${actOf(deleted.out)}`), { code: 0 })
  t.same([await codeOf(file), await seen()], [200, 200])
  t.equal((await run('blocked account')).out, '')
  t.equal(JSON.parse((await run(`account show ${account}`)).out).endTime, null)

  const final = await run(`account delete ${account} --final`)
  t.match(await run(`undo ${actOf(final.out)}`), { code: 1, err: /cannot be undone/ })
  for (let waits = 0; waits < 100; waits++) {
    if (JSON.parse((await run(`account show ${account}`)).out).statsCurrent.fileCount === 0) break
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  t.match(JSON.parse((await run(`account show ${account}`)).out), { statsCurrent: { fileCount: 0 } })
  t.match(await run('account delete nobody@example.org'), { code: 1, err: /no such account/ })
})

t.test('the page does the same', async (t) => {
  const file = await send('on the page', 'paged.txt')
  const { account, md5 } = await shown(file.id)
  const { origin } = new URL(admin)
  const signIn = await fetch(`${origin}/moderation/sign-in`, {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ token: env.HOLDFAST_ADMIN_TOKEN }),
    headers: { origin },
  })
  const cookie = signIn.headers.get('set-cookie')?.split(';')[0] ?? ''
  const see = async (query: Record<string, string>) =>
    (await fetch(`${origin}/moderation?${new URLSearchParams(query)}`, { headers: { cookie } })).text()
  const mark = /name="mark" value="([^"]+)"/.exec(await see({ q: file.id }))?.[1] ?? ''
  const act = async (fields: Record<string, string>) =>
    (
      await fetch(`${origin}/moderation/act`, {
        method: 'POST',
        redirect: 'manual',
        body: new URLSearchParams({ mark, back: '/moderation', ...fields }),
        headers: { cookie, origin },
      })
    ).status
  const lastAct = async () => JSON.parse((await run('acts --count 1')).out)[0].id
  t.match(await see({ q: md5 }), /Look in all accounts/)
  t.match(await see({ q: md5, from: '' }), /paged\.txt/)
  t.match(await see({ q: 'PAGED', from: '' }), /paged\.txt/)
  for (const fields of [
    { act: 'delete-hash', name: md5 },
    { act: 'delete', name: file.id },
    { act: 'delete-account', name: account },
  ]) {
    t.equal(await act(fields), 303, fields.act)
    t.not(await codeOf(file), 200, fields.act)
    const id = await lastAct()
    const log = await (await fetch(`${origin}/moderation/acts`, { headers: { cookie } })).text()
    t.match(log, `value="${id}"`, 'it has a button')
    t.equal(await act({ act: 'undo', name: id }), 303)
    t.equal(await codeOf(file), 200, fields.act)
  }
  t.match(await see({ q: account }), /Delete the account/)
  t.equal(await act({ act: 'delete-hash', name: 'x' }), 400)
})
