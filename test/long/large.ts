/**
 * Large files through the real service, several at a time: downloads equal uploads, and memory does
 * not grow with them.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import http from 'node:http'
import { hostsOf, Instances } from '../acceptance/instances.ts'
import { type Account, World } from '../acceptance/world.ts'
import { Standalone } from '../support/standalone.ts'
import { SeededNumbers } from './seeded.ts'

const blockBytes = 1024 * 1024
const boundary = 'large-0123456789'

export interface LargeFigures {
  files: number
  bytesEach: number
  uploadMs: number
  downloadMs: number
  /** Peak memory of the process, bytes; undefined where the system does not report it. */
  peakRssBytes: number | undefined
}

/** @throws when a byte is lost or changed. */
export async function largeTransfers({
  files,
  bytesEach,
}: {
  files: number
  bytesEach: number
}): Promise<LargeFigures> {
  const service = await Standalone.start()
  try {
    const account = await new World(hostsOf(service), new Instances()).premium()
    const seeds = Array.from({ length: files }, (_, number) => number + 1)
    const started = performance.now()
    const sent = await Promise.all(seeds.map((seed) => upload(service, account, { seed, bytes: bytesEach })))
    const uploaded = performance.now()
    await Promise.all(sent.map((file) => compare(service, account, file)))
    const peakRssBytes = await peakRss(service.pid)
    return {
      files,
      bytesEach,
      uploadMs: uploaded - started,
      downloadMs: performance.now() - uploaded,
      peakRssBytes,
    }
  } finally {
    await service.stop()
  }
}

interface SentFile {
  id: string
  md5: string
  bytes: number
}

async function upload(
  service: Standalone,
  account: Account,
  { seed, bytes }: { seed: number; bytes: number },
): Promise<SentFile> {
  const head = `--${boundary}\r\nContent-Disposition: form-data; name="folderId"\r\n\r\n${account.root}\r\n--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="large-${seed}"\r\n\r\n`
  const tail = `\r\n--${boundary}--\r\n`
  const hash = createHash('md5')
  const request = http.request(`${service.upload}/uploadfile`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${account.token}`,
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'content-length': head.length + bytes + tail.length,
    },
  })
  const answered = textOf(request)
  await write(request, Buffer.from(head))
  for (const block of blocks(seed, bytes)) {
    hash.update(block)
    await write(request, block)
  }
  request.end(tail)
  const { status, data } = JSON.parse(await answered) as {
    status: string
    data: { id: string; md5: string; size: number }
  }
  const md5 = hash.digest('hex')
  if (status !== 'ok' || data.md5 !== md5 || data.size !== bytes)
    throw new Error(`sent ${bytes} bytes of md5 ${md5}, reported ${status} ${JSON.stringify(data)}`)
  return { id: data.id, md5, bytes }
}

/** No two blocks are equal: each contains its number. */
function* blocks(seed: number, bytes: number): Generator<Buffer> {
  const pattern = SeededNumbers.bytes(seed, blockBytes)
  for (let at = 0; at < bytes; at += blockBytes) {
    const block = Buffer.from(pattern.subarray(0, Math.min(blockBytes, bytes - at)))
    if (block.length >= 8) block.writeDoubleLE(at, 0)
    yield block
  }
}

function write(request: http.ClientRequest, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) =>
    request.write(bytes, (error) => (error ? reject(error) : resolve())),
  )
}

function textOf(request: http.ClientRequest): Promise<string> {
  return new Promise((resolve, reject) => {
    request.once('error', reject)
    request.once('response', (response) => {
      response
        .setEncoding('utf8')
        .toArray()
        .then((parts: string[]) => resolve(parts.join('')), reject)
    })
  })
}

async function compare(service: Standalone, account: Account, file: SentFile): Promise<void> {
  const response = await fetch(`${service.download}/download/${file.id}/large`, {
    headers: { authorization: `Bearer ${account.token}` },
  })
  const hash = createHash('md5')
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    hash.update(chunk)
    bytes += chunk.length
  }
  const md5 = hash.digest('hex')
  if (response.status !== 200 || bytes !== file.bytes || md5 !== file.md5)
    throw new Error(
      `${file.id}: ${response.status}, ${bytes} bytes of md5 ${md5}, sent ${file.bytes} of ${file.md5}`,
    )
}

async function peakRss(pid: number | undefined): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const kibibytes = /^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024
}
