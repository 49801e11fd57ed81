/** The whole service on a disk whose last byte another program takes, again and again. */
import { readdirSync, rmSync } from 'node:fs'
import t from 'tap'
import { onSmallDisk } from '../../../test/support/small-disk.ts'
import { call, startProcess, uploadText } from './run.ts'
import { ServiceOnDisk } from './service-on-disk.ts'

const MiB = 1024 * 1024

/** The copies that all services of the machine have made for reading. */
const readingCopies = () =>
  new Set(readdirSync('/dev/shm').filter((name) => name.startsWith('holdfast-reading-')))
const copiesBefore = readingCopies()

const disk = await onSmallDisk(t, { file: import.meta.url, bytes: 320 * MiB })
if (disk !== undefined) {
  t.test('while another program takes all space it reads, and a start on that only reads', async (t) => {
    let isFilling = false
    const isOver = () => {
      isFilling = false
    }
    const service = await ServiceOnDisk.start(
      t,
      { disk, folder: 'rooted', isOver },
      { HOLDFAST_RATE_LIMITS: 'off' },
    )
    const { dataDir, filler, settings, ballasts } = service
    const text = 'kept '.repeat(600_000)
    const owners = await Promise.all(
      Array.from({ length: 4 }, async (_, n) => {
        const { data } = await uploadText(service.upload, { name: `${n}.txt`, text: `${n} ${text}` })
        return { ...data, text: `${n} ${text}` }
      }),
    )
    const asked = (token: string, method = 'GET', body?: unknown) => ({
      method,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    /** Each owner's bytes, pages and listing, by clients that know only links. */
    const readAll = async (why: string) => {
      const beganMs = performance.now()
      for (const { id, code, parentFolder, parentFolderCode, guestToken, link, ...owner } of owners) {
        t.ok((await (await fetch(link, asked(guestToken))).text()) === owner.text, `${why}: ${code}`)
        t.equal((await fetch(`${service.api}/d/${parentFolderCode}`)).status, 200, `${why}: its page`)
        const web = await call(`${service.api}/web/contents/${parentFolder}`, asked(guestToken))
        t.ok(web.data?.children?.[id], `${why}: its listing`)
      }
      t.ok(performance.now() - beganMs < 10_000, `${why}: ${Math.round(performance.now() - beganMs)} ms`)
    }
    /** Reads of an account that begin while others of it are answered. */
    const readAtOnce = async () => {
      const codes = new Set<number>()
      // What was read of an account is used for 3 s.
      const endMs = performance.now() + 4_000
      const readers = owners.flatMap(({ link, guestToken }) =>
        Array.from({ length: 4 }, async () => {
          while (performance.now() < endMs) {
            const headers = { authorization: `Bearer ${guestToken}`, range: 'bytes=0-9' }
            const answer = await fetch(link, { headers })
            await answer.text()
            codes.add(answer.status)
            // Sixteen readers overlap with this pause, too. Without it they slow other tests.
            await new Promise((later) => setTimeout(later, 10))
          }
        }),
      )
      await Promise.all(readers)
      t.strictSame([...codes], [206])
    }
    const remove = ({ id, guestToken }: { id: string; guestToken: string }) =>
      call(`${service.api}/contents`, asked(guestToken, 'DELETE', { contentsId: id }))
    await readAll('before')

    // No account is in memory.
    await service.kill()
    await service.startAgain(t)
    // All space that is released is taken.
    isFilling = true
    const filling = (async () => {
      while (isFilling) {
        await filler.fill()
        await new Promise((later) => setTimeout(later, 20))
      }
    })()
    const [first, ...others] = owners
    for (let status = ''; status !== 'error-unavailable'; ) {
      status = (
        await call(
          `${service.api}/contents/${first.parentFolder}/update`,
          asked(first.guestToken, 'PUT', { attribute: 'description', attributeValue: `${Math.random()}` }),
        )
      ).status
    }
    // The account whose change failed leaves memory first.
    const failedMs = performance.now()
    while ((await fetch(first.link, asked(first.guestToken))).status !== 200)
      await new Promise((later) => setTimeout(later, 100))
    t.comment(`read again ${Math.round(performance.now() - failedMs)} ms after its change failed`)
    await readAll('full')
    const beganMs = performance.now()
    t.equal((await remove(others[0])).code, 503)
    t.ok(performance.now() - beganMs < 2_000, 'a change is refused at once')
    t.equal((await fetch(`${service.admin}/readyz`)).status, 503)
    t.equal((await fetch(`${service.admin}/livez`)).status, 200)

    // Everything that the service reserved is taken, too.
    await service.kill()
    for (const ballast of ballasts) rmSync(ballast, { force: true })
    isFilling = false
    await filling
    await filler.fill()
    for (let times = 0; times < 2; times++) {
      await service.startAgain(t)
      await readAll('started on it')
      await readAtOnce()
      t.equal((await remove(others[0])).code, 503)
      t.match(await call(`${service.admin}/admin/status`), { data: { readsOnly: 'the disk is full' } })
      const again = await startProcess(dataDir, {
        ...settings,
        HOLDFAST_API_PORT: '0',
        HOLDFAST_UPLOAD_PORT: '0',
        HOLDFAST_DOWNLOAD_PORT: '0',
        HOLDFAST_ADMIN_PORT: '0',
      })
      t.equal(await again.ended, 75, 'the directory is in use')
      if (times > 0) break
      await service.kill()
    }

    await filler.empty()
    const freedMs = performance.now()
    while ((await remove(others[0]).catch(() => undefined))?.status !== 'ok')
      await new Promise((later) => setTimeout(later, 50))
    t.comment(`changes again after ${Math.round(performance.now() - freedMs)} ms`)
    owners.splice(1, 1)
    await readAll('with room again')
    t.match(await call(`${service.admin}/admin/status`), { data: { readsOnly: null, lostBatches: 0 } })
    const more = await uploadText(service.upload, { name: 'more.txt', text })
    t.equal(more.status, 'ok')
    t.strictSame(readingCopies().difference(copiesBefore), new Set(), 'no copy is left in memory')
  })

  t.test('the service changes again when no more is free than uploads leave', async (t) => {
    const service = await ServiceOnDisk.start(t, { disk, folder: 'small' }, { HOLDFAST_RATE_LIMITS: 'off' })
    const { filler, ballasts } = service
    const text = 'x'.repeat(4 * MiB)
    const { data } = await uploadText(service.upload, { name: 'first.txt', text })
    const remove = () =>
      call(`${service.api}/contents`, {
        method: 'DELETE',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${data.guestToken}` },
        body: JSON.stringify({ contentsId: data.id }),
      }).catch(() => undefined)
    for (let status = 'ok', n = 0; status === 'ok'; n++)
      ({ status } = await uploadText(service.upload, { name: `${n}.txt`, text: `${n}${text}` }))
    await service.kill()
    for (const ballast of ballasts) rmSync(ballast)
    await filler.fill()
    await service.startAgain(t)
    t.match(await call(`${service.admin}/admin/status`), { data: { readsOnly: 'the disk is full' } })
    t.equal((await remove())?.code, 503)

    await filler.empty()
    const freedMs = performance.now()
    while ((await remove())?.code !== 200 && performance.now() - freedMs < 30_000)
      await new Promise((later) => setTimeout(later, 50))
    t.comment(`changes again after ${Math.round(performance.now() - freedMs)} ms`)
    t.match(await call(`${service.admin}/admin/status`), { data: { readsOnly: null, lostBatches: 0 } })
  })
}
