/**
 * A service whose small files were damaged while it was stopped: notes, marks, copies, reserves and
 * what RocksDB has beside its tables. `damaged-metadata.test.ts` has the rows.
 */
import { readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Standalone } from '../src/index.ts'
import { call, dataDir, startHere, uploadText } from './run.ts'

/** Those that a link can make unreadable: nothing is written through it. */
const plainFiles = ['release.json', 'release.json.copy', 'master.key', 'metadata/holder']

const damages: Record<string, (bytes: Buffer) => Buffer> = {
  'a changed bit': (bytes) => {
    const changed = Buffer.from(bytes)
    changed[10] = (changed[10] ?? 0) ^ 0x10
    return changed
  },
  'cut off': (bytes) => bytes.subarray(0, bytes.length / 2),
  empty: () => Buffer.alloc(0),
}

function smallFiles(dir: string): string[] {
  const ofCatalogue = readdirSync(join(dir, 'blobs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => /^catalogue-\d+(-level)?\/(CURRENT|IDENTITY|MANIFEST-\d+|OPTIONS-\d+)$/.test(name))
    .map((name) => `blobs/${name}`)
  const others = [
    'metadata/witness.0',
    'metadata/ballast',
    'blobs/ballast',
    'blobs/orderly-end',
    'blobs/identity',
  ]
  return [...plainFiles, ...others, ...ofCatalogue]
}

t.test('damaged small files cost nothing that was stored', async (t) => {
  const dir = dataDir(t)
  let service = await startHere(dir)
  const first = (await uploadText(service.addresses.upload, { name: 'first.txt', text: 'kept' })).data
  const { guestToken: token, parentFolder: folderId } = first
  await service.close()

  const works = async ({ addresses: { api, upload, download } }: Standalone, what: string) => {
    const { pathname, search } = new URL(first.link)
    t.equal(await (await fetch(`${download}${pathname}${search}`)).text(), 'kept', what)
    const fields = { token, folderId }
    t.equal((await uploadText(upload, { name: 'more.txt', text: what, fields })).status, 'ok', what)
    const headers = { authorization: `Bearer ${token}` }
    t.equal((await call(`${api}/accounts/getid`, { headers })).status, 'ok', what)
  }
  for (const [what, damage] of Object.entries(damages)) {
    for (const name of smallFiles(dir)) {
      const path = join(dir, name)
      writeFileSync(path, damage(readFileSync(path)))
    }
    service = await startHere(dir)
    await works(service, what)
    await service.close()
  }
  if (process.platform !== 'linux') return
  for (const name of plainFiles) {
    rmSync(join(dir, name))
    symlinkSync('/proc/self/mem', join(dir, name)) // reads answer EIO
  }
  service = await startHere(dir)
  await works(service, 'unreadable')
  await service.close()
})
