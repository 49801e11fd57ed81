/** The whole service on a disk that others have filled to the last byte. */

import { existsSync, rmSync } from 'node:fs'
import t from 'tap'
import { onSmallDisk } from '../../../test/support/small-disk.ts'
import { until } from '../../../test/support/until.ts'
import { call, uploadText } from './run.ts'
import { ServiceOnDisk } from './service-on-disk.ts'

const MiB = 1024 * 1024

const disk = await onSmallDisk(t, { file: import.meta.url, bytes: 320 * MiB })
if (disk !== undefined) {
  t.test('killed and started on a full disk, it serves, deletes, and accepts uploads again', async (t) => {
    const service = await ServiceOnDisk.start(t, { disk, folder: 'data' })
    const { filler, ballasts } = service
    const text = 'kept '.repeat(600_000)
    const { data: file } = await uploadText(service.upload, { name: 'file.txt', text })
    const request = (method: string, body: unknown) => ({
      method,
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', authorization: `Bearer ${file.guestToken}` },
    })
    const { data: link } = await call(`${service.api}/contents/${file.id}/directlinks`, request('POST', {}))
    await until(() => ballasts.every(existsSync))
    await service.kill()
    await filler.fill()

    await service.startAgain(t)
    t.equal(await (await fetch(link.directLink)).text(), text)
    const gone = await call(`${service.api}/contents`, request('DELETE', { contentsId: file.id }))
    t.equal(gone.status, 'ok')
    await filler.empty()
    await until(async () => (await uploadText(service.upload, { name: 'more.txt', text })).status === 'ok')

    // Once more, and the metadata's ballast is spent.
    await until(() => ballasts.every(existsSync))
    await service.kill()
    rmSync(ballasts[0])
    await filler.fill()
    await service.startAgain(t)
    t.notOk(existsSync(ballasts[1]), 'the other ballast was used')
    await filler.empty()
    await until(() => ballasts.every(existsSync))
  })
}
