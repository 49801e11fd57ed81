/** Uploads take bounded memory with every behaviour of the store and the client. */
import process_ from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { MemoryBlobStore } from '@holdfast/blob-store'
import t from 'tap'
import { form, formType, head, post, raw, received, start } from './posting.ts'

t.test('a slow store slows down the client, and takes no memory', async (t) => {
  const gate = Promise.withResolvers<void>()
  class SlowStore extends MemoryBlobStore {
    taken = 0
    override async stage(...args: Parameters<MemoryBlobStore['stage']>) {
      const stage = await super.stage(...args)
      const write = stage.write.bind(stage)
      stage.write = async (bytes) => {
        this.taken += bytes.length
        await gate.promise
        await write(bytes)
      }
      return stage
    }
  }
  const blobs = new SlowStore()
  const process = await start(t, { blobs })
  const bytes = Buffer.alloc(48 * 1024 * 1024, 5)
  const body = form(['file', bytes, 'x'])
  const { socket, text } = await raw(process, head(body.length))
  for (let at = 0; at < body.length; at += 1024 * 1024) socket.write(body.subarray(at, at + 1024 * 1024))
  let before = -1
  while (socket.writableLength !== before) {
    before = socket.writableLength
    await delay(100)
  }
  t.ok(blobs.taken <= 65_536, 'one piece was taken')
  t.ok(before > 20 * 1024 * 1024, `the client still has ${before} bytes`)
  gate.resolve()
  while (!text().includes('}}')) await delay(20)
  t.match(text(), new RegExp(`"size":${bytes.length}`))
  socket.destroy()
})

t.test('pieces of one byte hold no more memory than others, and have a limit', async (t) => {
  const process = await start(t)
  const body = form(['file', Buffer.alloc(60_000, 1), 'tiny'])
  const pieces = (bytes: Buffer) =>
    Buffer.concat(
      [...bytes].map((byte) => Buffer.concat([Buffer.from('1\r\n'), Buffer.of(byte), Buffer.from('\r\n')])),
    )
  const chunked = `POST /uploadfile HTTP/1.1\r\nHost: x\r\nContent-Type: ${formType}\r\nTransfer-Encoding: chunked\r\n\r\n`
  const sent = pieces(body.subarray(0, -10))
  await post(process, body)
  const clients = []
  const before = memoryUsed()
  for (let at = 0; at < 4; at++) clients.push(await raw(process, chunked, sent))
  await received(process, 4 * (body.length - 10))
  const perUpload = (memoryUsed() - before) / 4
  // An object for each piece takes some 5 MiB an upload; the rest is what the process does beside.
  t.ok(perUpload < 2.5 * 1024 * 1024, `${Math.round(perUpload / 1024)} KiB an upload`)
  for (const { socket, text } of clients) {
    socket.write(Buffer.concat([pieces(body.subarray(-10)), Buffer.from('0\r\n\r\n')]))
    while (!text().includes('}}')) await delay(5)
    t.match(text(), /"size":60000/)
    socket.destroy()
  }
  const more = pieces(Buffer.alloc(60_000))
  const endless = await raw(process, chunked, sent)
  while (!endless.text().includes('}')) {
    if (endless.socket.writableLength === 0) endless.socket.write(more)
    await delay(1)
  }
  t.match(endless.text(), /^HTTP\/1\.1 429 [\s\S]*error-rateLimit/)
  endless.socket.destroy()
})

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Reachable memory. */
function memoryUsed(): number {
  collect()
  const { heapUsed, arrayBuffers } = process_.memoryUsage()
  return heapUsed + arrayBuffers
}
