/**
 * Unique, incompressible bodies from one random pool: a stamp in every 4 KiB, so that no two are
 * alike and nothing is deduplicated.
 */
import { randomFillSync } from 'node:crypto'

const boundary = 'holdfast-bench-boundary'
const stampEvery = 4096
const poolBytes = 8 * 1024 * 1024

export class Payloads {
  readonly #pool = randomFillSync(Buffer.alloc(poolBytes))
  readonly #run = randomFillSync(Buffer.alloc(8)).readBigUInt64BE()
  #made = 0;

  /** Pieces of a multipart upload of `bytes` bytes, different from all before. */
  *upload(url: URL, path: string, fields: Record<string, string>, bytes: number): Generator<Uint8Array> {
    const n = this.#made++
    const { head, tail } = multipart(fields)
    const request =
      `POST ${path} HTTP/1.1\r\nHost: ${url.host}\r\nContent-Type: multipart/form-data; boundary=${boundary}\r\n` +
      `Content-Length: ${head.length + bytes + tail.length}\r\n\r\n`
    if (bytes <= 64 * 1024) {
      const body = this.#stamped(bytes, n, 0)
      yield Buffer.concat([Buffer.from(request), head, body, tail])
      return
    }
    yield Buffer.concat([Buffer.from(request), head])
    for (let at = 0; at < bytes; at += 1024 * 1024)
      yield this.#stamped(Math.min(1024 * 1024, bytes - at), n, at)
    yield tail
  }

  #stamped(bytes: number, n: number, at: number): Buffer {
    const from = Math.floor(Math.random() * ((poolBytes - bytes) / 64)) * 64
    const body = Buffer.from(this.#pool.subarray(from, from + bytes))
    for (let offset = 0; offset + 24 <= bytes; offset += stampEvery) {
      body.writeBigUInt64BE(this.#run, offset)
      body.writeDoubleBE(n, offset + 8)
      body.writeDoubleBE(at + offset, offset + 16)
    }
    return body
  }
}

function multipart(fields: Record<string, string>): { head: Buffer; tail: Buffer } {
  const parts = Object.entries(fields).map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  )
  const head = `${parts.join('')}--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="bench.bin"\r\nContent-Type: application/octet-stream\r\n\r\n`
  return { head: Buffer.from(head), tail: Buffer.from(`\r\n--${boundary}--\r\n`) }
}
