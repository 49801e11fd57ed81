/** The whole service on a disk that others have filled to the last byte. */
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { freePorts } from '../../../infra/servers/ports.ts'
import { Filler, onSmallDisk } from '../../../test/support/small-disk.ts'
import { call, startProcess, uploadText } from './run.ts'

const MiB = 1024 * 1024

t.setTimeout(240_000)

const disk = await onSmallDisk(t, { file: import.meta.url, bytes: 320 * MiB })
if (disk !== undefined) {
  t.test('killed and started on a full disk, it serves, deletes, and accepts uploads again', async (t) => {
    const dataDir = join(disk, 'data')
    const filler = new Filler(disk)
    const [api, upload, download, admin] = await freePorts(4)
    const settings = {
      HOLDFAST_API_PORT: `${api}`,
      HOLDFAST_UPLOAD_PORT: `${upload}`,
      HOLDFAST_DOWNLOAD_PORT: `${download}`,
      HOLDFAST_ADMIN_PORT: `${admin}`,
    }
    let service = await startProcess(dataDir, settings)
    t.teardown(async () => {
      service.process.kill('SIGKILL')
      await service.ended
      await filler.empty()
      rmSync(dataDir, { recursive: true })
    })
    const text = 'kept '.repeat(600_000)
    const { data: file } = await uploadText(service.upload, { name: 'file.txt', text })
    const request = (method: string, body: unknown) => ({
      method,
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', authorization: `Bearer ${file.guestToken}` },
    })
    const { data: link } = await call(`${service.api}/contents/${file.id}/directlinks`, request('POST', {}))
    const ballasts = ['metadata', 'blobs'].map((part) => join(dataDir, part, 'ballast'))
    while (!ballasts.every(existsSync)) await new Promise((later) => setTimeout(later, 20))
    service.process.kill('SIGKILL')
    await service.ended
    await filler.fill()

    service = await startProcess(dataDir, settings)
    t.match(service.stdout(), 'Stop:', service.stderr())
    t.equal(await (await fetch(link.directLink)).text(), text)
    const gone = await call(`${service.api}/contents`, request('DELETE', { contentsId: file.id }))
    t.equal(gone.status, 'ok')
    await filler.empty()
    while ((await uploadText(service.upload, { name: 'more.txt', text })).status !== 'ok')
      await new Promise((later) => setTimeout(later, 100))

    // Once more, and the metadata's ballast is spent.
    while (!ballasts.every(existsSync)) await new Promise((later) => setTimeout(later, 20))
    service.process.kill('SIGKILL')
    await service.ended
    rmSync(ballasts[0] as string)
    await filler.fill()
    service = await startProcess(dataDir, settings)
    t.match(service.stdout(), 'Stop:', service.stderr())
    t.notOk(existsSync(ballasts[1] as string), 'the other ballast was used')
    await filler.empty()
    while (!ballasts.every(existsSync)) await new Promise((later) => setTimeout(later, 20))
  })
}
