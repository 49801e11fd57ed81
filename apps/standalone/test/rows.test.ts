/** Keys of all rows beside the journals, of a data directory whose service did something. */

import { join } from 'node:path'
import { LevelMetadataStore } from '@holdfast/journal-level'
import { testMetadataStore } from '@holdfast/journal-level/testing'
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'
import { call, dataDir, operator, startHere, uploadText } from './run.ts'

t.test('keys of rows are those of the releases before', async (t) => {
  const dir = dataDir(t)
  const service = await startHere(dir, { HOLDFAST_UPLOAD_RECORD_DAYS: '7' })
  const { admin, api, upload } = service.addresses
  const { data: file } = await uploadText(upload, { name: 'a.txt', text: 'text' })
  const headers = { authorization: `Bearer ${file.guestToken}`, 'content-type': 'application/json' }
  const attribute = { attribute: 'expiry', attributeValue: 4_000_000_000 }
  t.match(
    await call(`${api}/contents/${file.parentFolder}/update`, {
      ...{ method: 'PUT', headers, body: JSON.stringify(attribute) },
    }),
    { status: 'ok' },
  )
  const ctl = (...words: string[]) => operator([...words, '--admin', admin])
  t.match(await ctl('account', 'create', 'ann@example.org'), { code: 0 })
  t.match(await ctl('reconcile'), { code: 0 })
  await service.close()

  const store = await LevelMetadataStore.open({ ...testMetadataStore, path: join(dir, 'metadata') })
  t.teardown(() => store.close())
  const keys = new Set<string>()
  for await (const { key } of store.lookups.scan('')) keys.add(masked(key))
  sameAsGolden(t, import.meta.dirname, 'row-keys.txt', [...keys].sort())
})

function masked(key: string): string {
  return key
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>')
    .replaceAll(/[0-9a-f]{32,}/g, '<hex>')
    .replaceAll(/\d{13}-\w+/g, '<time>-<drawn>')
    .replaceAll(/\b\d+\b/g, '<number>')
}
