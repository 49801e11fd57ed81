/**
 * The references that run beside the service, in a separate process: what this machine gives a
 * server that stores nothing.
 *
 * `node:http` and `fastify` + `@fastify/multipart` sinks for uploads, bytes from memory for
 * downloads, and on request one core's md5 rate and the disk's durable append rate. Communicates
 * with its parent by lines of JSON on stdout.
 */
import { createHash } from 'node:crypto'
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import multipart from '@fastify/multipart'
import fastify from 'fastify'

const directory = process.argv[2] ?? '.'
const memory = Buffer.alloc(1024 * 1024, 'holdfast')
const listing = Buffer.from(JSON.stringify({ status: 'ok', data: { children: 'x'.repeat(400_000) } }))

const plain = createServer((request, response) => {
  const url = request.url ?? '/'
  if (url.startsWith('/bytes/')) {
    let left = Number(url.slice(7))
    response.writeHead(200, { 'content-length': left })
    const pump = (): void => {
      while (left > 0) {
        const piece = left >= memory.length ? memory : memory.subarray(0, left)
        left -= piece.length
        if (left === 0) return void response.end(piece)
        if (!response.write(piece)) return
      }
      response.end()
    }
    response.on('drain', pump)
    return pump()
  }
  if (url.startsWith('/listing')) {
    response.writeHead(200, { 'content-length': listing.length })
    return void response.end(listing)
  }
  if (url.startsWith('/md5') || url.startsWith('/disk')) {
    const figure = url.startsWith('/md5')
      ? md5Rate()
      : url.startsWith('/disk-small')
        ? appendRate(4096)
        : appendRate(1024 * 1024) * 1024 * 1024
    return void response.end(JSON.stringify(figure))
  }
  request.on('data', () => undefined)
  request.on('end', () => response.end('{"status":"ok"}'))
})

const framework = fastify({ bodyLimit: 2 ** 40 })
await framework.register(multipart, { limits: { fileSize: 2 ** 40 } })
framework.post('/uploadfile', async (request) => {
  for await (const part of request.parts())
    if (part.type === 'file') {
      part.file.resume()
      await new Promise((resolve) => part.file.once('end', resolve))
    }
  return { status: 'ok' }
})
framework.post('/json', async () => ({ status: 'ok' }))

await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve))
await framework.listen({ port: 0, host: '127.0.0.1' })
const port = (address: AddressInfo | string | null): number => (address as AddressInfo).port
console.log(JSON.stringify({ http: port(plain.address()), fastify: port(framework.server.address()) }))
process.on('disconnect', () => process.exit(0))

/** Bytes per second of md5 on one core, 1 MiB at a time. */
function md5Rate(): number {
  const hash = createHash('md5')
  const from = performance.now()
  let bytes = 0
  while (performance.now() - from < 250) {
    hash.update(memory)
    bytes += memory.length
  }
  return (bytes / (performance.now() - from)) * 1000
}

/** Appends with fdatasync each, per second. A MiB at a time, as bulk is written. */
function appendRate(size: number): number {
  const path = mkdtempSync(join(directory, 'append-'))
  const file = openSync(join(path, 'file'), 'w')
  const block = memory.subarray(0, size)
  const from = performance.now()
  let count = 0
  try {
    while (performance.now() - from < 500) {
      writeSync(file, block)
      fdatasyncSync(file)
      count++
    }
  } finally {
    closeSync(file)
    rmSync(path, { recursive: true })
  }
  return (count / (performance.now() - from)) * 1000
}
