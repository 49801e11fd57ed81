/** The drill: load, a backup under load, more load, a restore by the operator's program. */
import { createHash } from 'node:crypto'
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { call, dataDir, operator, startHere, uploadText } from './run.ts'

interface UploadAnswer {
  id: string
  guestToken: string
  md5: string
}

async function uploaded(upload: string, text: string): Promise<UploadAnswer> {
  const { data } = await uploadText(upload, { name: 'a.txt', text })
  return { id: data.id, guestToken: data.guestToken, md5: createHash('md5').update(text).digest('hex') }
}

async function digestOf(api: string, { id, guestToken }: UploadAnswer): Promise<string> {
  const headers = { authorization: `Bearer ${guestToken}` }
  const link = await call(`${api}/contents/${id}/directlinks`, { method: 'POST', headers })
  const bytes = await (await fetch(link.data.directLink)).arrayBuffer()
  return createHash('md5').update(Buffer.from(bytes)).digest('hex')
}

t.test('everything acknowledged before a backup is in the restore, with its digests', async (t) => {
  const dir = dataDir(t)
  const target = join(dataDir(t), 'backup')
  const service = await startHere(dir)
  const { upload, api, admin } = service.addresses
  const before: UploadAnswer[] = []
  for (let n = 0; n < 20; n++) before.push(await uploaded(upload, `text ${n} `.repeat(1 + n * 2_000)))
  const headers = { authorization: `Bearer ${before[0]?.guestToken}` }
  const load = Promise.all(Array.from({ length: 10 }, (_, n) => uploaded(upload, `during ${n}`)))
  const backup = await operator(['backup', target, '--admin', admin])
  t.match(backup, { code: 0, answer: { unreadable: [] } })
  await load
  // deleted and collected after the backup: the backup has it
  await call(`${api}/contents`, {
    method: 'DELETE',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ contentsId: before[0]?.id }),
  })
  await call(`${admin}/admin/collect`, { method: 'POST', body: '{"graceSeconds":0}', headers: json })
  const again = await operator(['backup', target, '--admin', admin])
  t.ok(again.answer.writtenBytes < backup.answer.writtenBytes, 'the second one copies what is new')
  t.match(await operator(['verify', '--admin', admin]), { code: 0, answer: { damaged: 0, missing: 0 } })
  t.match(await operator(['backup', join(dir, 'inside'), '--admin', admin]), {
    code: 1,
    text: /in the data directory/,
  })
  symlinkSync(dir, join(target, '..', 'link'))
  t.match(await operator(['backup', join(target, '..', 'link', 'inside'), '--admin', admin]), {
    code: 1,
    text: /in the data directory/,
  })
  t.match((await call(`${admin}/admin/status`)).data, { collecting: 'goes on', backup: { lastMs: Number } })
  await service.close()
  const restarted = await startHere(dir)
  const metrics = await (await fetch(`${restarted.addresses.admin}/metrics`)).text()
  t.match(metrics, /^holdfast_backup_last_timestamp_seconds \d{10}/m, 'a restart keeps its time')
  await restarted.close()
  rmSync(dir, { recursive: true })

  t.match(await operator(['verify', target]), { code: 0, answer: { damaged: 0, missing: 0 } })
  const restored = dataDir(t)
  t.match(await operator(['restore', target, restored, '--at', backup.answer.snapshot]), { code: 0 })
  t.match(await operator(['restore', target, restored]), { code: 1, text: /not empty/ })
  mkdirSync(join(restored, 'restoring'))
  const away = `${restored}-metadata`
  renameSync(join(restored, 'metadata'), away)
  const incomplete = await operator(['restore', target, restored])
  t.match(incomplete, { code: 1, text: /not empty/ }, 'files whose metadata is elsewhere stay')
  renameSync(away, join(restored, 'metadata'))
  mkdirSync(join(restored, 'restoring'))
  renameSync(join(restored, 'metadata'), join(restored, 'restoring', 'metadata'))
  const killed = await operator(['restore', target, restored, '--at', backup.answer.snapshot])
  t.match(killed, { code: 0 }, 'a restore that was killed between its moves begins again')
  const second = await startHere(restored)
  t.teardown(() => second.close())
  for (const file of before) t.equal(await digestOf(second.addresses.api, file), file.md5)
  const more = await uploaded(second.addresses.upload, 'goes on')
  t.equal(await digestOf(second.addresses.api, more), more.md5)
  t.match(await operator(['verify', '--admin', second.addresses.admin]), { code: 0 })
  const keepOne = ['backup', target, '--keep', '1', '--admin', second.addresses.admin]
  t.match(await operator(keepOne), {
    code: 0,
    answer: { pruned: { snapshots: [backup.answer.snapshot, again.answer.snapshot] } },
  })
  t.match(await operator(['verify', target]), { code: 0, answer: { damaged: 0, missing: 0 } })
})

/** Changes a byte of the file with this text. */
function damage(folder: string, text: string): void {
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const path = join(folder, name)
    const bytes = statSync(path).isFile() ? readFileSync(path) : Buffer.alloc(0)
    const at = bytes.indexOf(text)
    if (at < 0) continue
    bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at)
    writeFileSync(path, bytes)
    return
  }
  throw new Error(`no file of ${folder} has the text`)
}

t.test(
  'a damaged file is named with its path and its owner, in a backup and in the live store',
  async (t) => {
    const dir = dataDir(t)
    const backup = join(dataDir(t), 'backup')
    let service = await startHere(dir)
    const { api, upload, admin } = service.addresses
    const made = await operator(['account', 'create', 'ann@example.com', '--admin', admin])
    const { id, token, rootFolder } = made.answer
    const headers = { authorization: `Bearer ${token}`, ...json }
    const folder = async (parentFolderId: string, folderName: string): Promise<string> => {
      const body = JSON.stringify({ parentFolderId, folderName })
      return (await call(`${api}/contents/createfolder`, { method: 'POST', headers, body })).data.id
    }
    const folderId = await folder(await folder(rootFolder, 'photos'), '2026')
    const text = 'a text that rots '.repeat(500)
    const files = await Promise.all(
      ['kept.txt', 'deleted.txt'].map((name) =>
        uploadText(upload, { name, text: `${name} ${text}`, fields: { token, folderId } }),
      ),
    )
    await operator(['content', 'delete', files[1]?.data.id, '--admin', admin])
    await operator(['backup', backup, '--admin', admin])
    await service.close()
    const owner = { account: id, email: 'ann@example.com' }
    const kept = { id: files[0]?.data.id, path: '/photos/2026/kept.txt', inBin: false }
    const report = {
      damaged: 2,
      missing: 0,
      broken: [
        { why: 'damaged', accounts: 1, usedBy: [{ ...owner, files: [kept], count: 1 }] },
        { why: 'damaged', accounts: 1, usedBy: [{ ...owner, files: [], count: 0 }] },
      ],
    }
    /** The one that is still there first. */
    const reportOf = async (words: string[]): Promise<typeof report> => {
      const { code, answer, text: said } = await operator(words)
      t.equal(code, 1)
      t.match(said, /damaged or missing$/, 'the report is on the ordinary output')
      const reported = answer as typeof report
      reported.broken.sort((one, other) => (other.usedBy[0]?.count ?? 0) - (one.usedBy[0]?.count ?? 0))
      return reported
    }
    for (const name of ['kept.txt', 'deleted.txt']) {
      damage(join(dir, 'blobs', 'extents'), `${name} ${text}`)
      damage(join(backup, 'objects'), `${name} ${text}`)
    }
    const restored = join(dataDir(t), 'restored')
    t.match(await operator(['restore', backup, restored]), { code: 1, text: /--without-damaged/ })
    await t.rejects(startHere(restored), { code: 'DATA_MISSING', message: /did not complete/ })
    const partly = await operator(['restore', backup, restored, '--without-damaged'])
    t.match(partly, { code: 1, answer: { damaged: 2 } })
    const half = await startHere(restored)
    t.match(await reportOf(['verify', '--admin', half.addresses.admin]), { missing: 2 })
    const other = await uploadText(half.addresses.upload, {
      name: 'kept.txt',
      text: 'another text',
      fields: { token, folderId },
    })
    t.match(other, { status: 'ok' }, 'everything else works')
    await half.close()
    t.match(await reportOf(['verify', backup]), report)
    service = await startHere(dir)
    t.teardown(() => service.close())
    t.match(await reportOf(['verify', '--admin', service.addresses.admin]), report)
  },
)

const json = { 'content-type': 'application/json' }
