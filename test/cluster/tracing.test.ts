/** Traces of a cluster: one request is one trace, in each process that works for it. */

import { createLog } from '@holdfast/http-kit'
import t from 'tap'
import { otlpReceiver } from '../support/otlp-receiver.ts'
import { until } from '../support/until.ts'
import { dataOf, startMemoryCluster } from './in-memory.ts'

t.test('one request is one trace, from the frontend to accounts and storage nodes', async (t) => {
  const receiver = await otlpReceiver(t)
  const { api, upload } = await startMemoryCluster(t, {
    logOf: () => createLog({ level: 'silent' }),
    scanner: '',
    settings: { HOLDFAST_TRACE_URL: receiver.url },
  })
  /** Any storage node is `node`. */
  const seen = async (traceId: string, ...wanted: string[]) => {
    const arrows = () => receiver.arrows(traceId).map((arrow) => arrow.replace(/^node\d/, 'node'))
    const missing = () => wanted.filter((arrow) => !arrows().includes(arrow))
    // Those that never come are named below.
    await until(async () => missing().length === 0).catch(() => {})
    t.strictSame(missing(), [], `of ${[...new Set(arrows())].join(', ')}`)
  }
  const within = (traceId: string) => ({ traceparent: `00-${traceId}-00000000000000ab-01` })

  const uploads = 'a'.repeat(32)
  const form = new FormData()
  form.set('file', new Blob([Buffer.alloc(600_000, 'bytes')]), 'a.txt')
  const file = await dataOf(
    fetch(`${upload.addresses.upload}/uploadfile`, { method: 'POST', body: form, headers: within(uploads) }),
  )
  await seen(
    uploads,
    'upload:  > POST /uploadfile',
    'upload: POST /uploadfile > blobs commit',
    'node: blobs commit > node Commit',
    'upload: POST /uploadfile > ask addFile',
    'host: ask addFile > account addFile',
    'host: account addFile > journal acquire',
    'host: account addFile > flush',
    'host: flush > journal append',
    'host: flush > lookups write',
  )

  const listings = 'b'.repeat(32)
  const headers = { ...within(listings), authorization: `Bearer ${file.guestToken}` }
  const { children } = await dataOf(fetch(`${api.addresses.api}/contents/${file.parentFolder}`, { headers }))
  await seen(
    listings,
    'api:  > GET /contents/:contentId',
    'api: GET /contents/:contentId > ask readContent',
    'host: ask readContent > account readContent',
  )

  const downloads = 'c'.repeat(32)
  const { link } = (children as Record<string, Record<string, string>>)[String(file.id)] ?? {}
  const download = await fetch(String(link), { headers: { ...headers, ...within(downloads) } })
  await download.arrayBuffer()
  await seen(
    downloads,
    'upload:  > GET /download/:contentId/*',
    'upload: GET /download/:contentId/* > ask openFile',
    'node: GET /download/:contentId/* > node GET /blobs',
  )
})
