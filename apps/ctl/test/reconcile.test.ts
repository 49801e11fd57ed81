/** `ctl reconcile` against a running service whose references were damaged while it was off. */

import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '@holdfast/http-kit'
import { LevelMetadataStore } from '@holdfast/journal-level'
import { testMetadataStore } from '@holdfast/journal-level/testing'
import { readConfig, startStandalone } from '@holdfast/standalone'
import t from 'tap'
import { sizeOf } from '../../../test/forms.ts'
import { ctl } from '../src/index.ts'

const count = sizeOf('damagedReferences')
const accounts = 4
const uploadsAtOnce = 16

const dataDir = mkdtempSync(join(tmpdir(), 'holdfast-reconcile-'))
t.teardown(() => rmSync(dataDir, { recursive: true, force: true }))

function startHere() {
  const env = {
    HOLDFAST_API_PORT: '0',
    HOLDFAST_UPLOAD_PORT: '0',
    HOLDFAST_DOWNLOAD_PORT: '0',
    HOLDFAST_ADMIN_PORT: '0',
    HOLDFAST_DATA_DIR: dataDir,
    HOLDFAST_RATE_LIMITS: 'off',
    // Background rounds would repair it before the command runs.
    HOLDFAST_RECONCILE_SECONDS: '86400',
    HOLDFAST_COLLECT_SECONDS: '86400',
  }
  const { config, secrets } = readConfig(env, { readSecret: () => '' })
  return startStandalone({ config, secrets, log: createLog({ level: 'silent' }) })
}

type Service = Awaited<ReturnType<typeof startHere>>

async function run(service: Service, words: string) {
  const out: string[] = []
  const code = await ctl(words.split(' '), {
    env: { HOLDFAST_ADMIN_PORT: new URL(service.addresses.admin).port },
    readSecret: () => '',
    print: (line) => out.push(line),
    complain: (line) => out.push(line),
  })
  if (code !== 0) throw new Error(out.join('\n'))
  return JSON.parse(out.join('\n'))
}

async function call(url: string, init?: RequestInit) {
  const { status, data } = (await (await fetch(url, init)).json()) as {
    status: string
    data: Record<string, string>
  }
  if (status !== 'ok') throw new Error(`${url}: ${status}`)
  return data
}

async function upload(service: Service, { token, rootFolder }: Record<string, string>, text: string) {
  const form = new FormData()
  form.set('token', token ?? '')
  form.set('folderId', rootFolder ?? '')
  form.set('file', new Blob([text]), 'a.txt')
  return call(`${service.addresses.upload}/uploadfile`, { method: 'POST', body: form })
}

t.test(
  `${count} lost and ${count} stray references are found and repaired, and no file is lost`,
  async (t) => {
    const first = await startHere()
    const owners = await Promise.all(
      Array.from({ length: accounts }, () => call(`${first.addresses.api}/accounts`, { method: 'POST' })),
    )
    const links: string[] = []
    for (let at = 0; at < count; at += uploadsAtOnce) {
      const some = Array.from({ length: Math.min(uploadsAtOnce, count - at) }, async (_, one) => {
        const owner = owners[(at + one) % accounts] as Record<string, string>
        const { link = '' } = await upload(first, owner, `file ${at + one}`)
        links[at + one] = link
      })
      await Promise.all(some)
    }
    const { used, missing } = await run(first, 'reconcile')
    t.same({ used, missing }, { used: count, missing: 0 })
    await first.close()

    const store = await LevelMetadataStore.open({ ...testMetadataStore, path: join(dataDir, 'metadata') })
    const references: string[] = []
    for await (const { key } of store.lookups.scan('ref/')) references.push(key)
    t.equal(references.length, count)
    await store.lookups.write(references.map((key) => ({ delete: key })))
    const unknown = '6ba7b810-9dad-41d1-80b4-00c04fd430c8'
    const strays = Array.from({ length: count }, (_, at) => {
      const account = at % 10 === 0 ? unknown : owners[at % accounts]?.id
      return `ref/${randomBytes(48).toString('hex')}/${randomBytes(16).toString('hex')}/${account}`
    })
    await store.lookups.write(strays.map((put) => ({ put, value: Buffer.alloc(0) })))
    await store.close()

    const service = await startHere()
    t.teardown(() => service.close())
    const found = { used: count, missing: count, references: count, orphaned: count, failed: 0 }
    t.match(await run(service, 'reconcile --dry-run'), { ...found, mended: 0, dryRun: true })
    t.match(await run(service, 'collect'), { deleted: 0 }, 'without references, and within their grace')
    t.match(await run(service, 'reconcile'), {
      ...found,
      references: 2 * count,
      mended: 2 * count,
      dryRun: false,
      ended: /^20/,
    })
    t.match(await run(service, 'reconcile'), { missing: 0, orphaned: 0, mended: 0, references: count })
    t.match(await run(service, 'collect --grace 0'), { deleted: 0, blobs: count })
    const { reconciling } = await run(service, 'status')
    t.match(reconciling, { last: { missing: 0, orphaned: 0, failed: 0 } })
    const metrics = await (await fetch(`${service.addresses.admin}/metrics`)).text()
    t.match(metrics, new RegExp(`holdfast_reconcile_last\\{[^}]*figure="used"[^}]*\\} ${count}\n`))
    t.match(metrics, /holdfast_reconcile_age_seconds/)
    for (let at = 0; at < count; at += uploadsAtOnce) {
      const some = links.slice(at, at + uploadsAtOnce).map(async (link, one) => {
        const body = await fetch(link.replace(first.addresses.download, service.addresses.download))
        return (await body.text()) === `file ${at + one}`
      })
      if (!(await Promise.all(some)).every(Boolean)) t.fail(`a file from ${at} on is lost`)
    }
  },
)
