/** A host whose requests wait until the test releases them, and clients that dial it. */

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type Clock, systemClock } from '@holdfast/kernel'
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import type { Test } from 'tap'
import { until } from '../../../test/support/until.ts'
import {
  clientAddress,
  createHttpHost,
  createRateLimits,
  drainOnClose,
  type HttpHostOptions,
  ok,
  ownParts,
} from '../src/index.ts'

/** More than the socket buffers of both ends hold. */
const largeBytes = 128 * 1024 * 1024

export interface DialledHost {
  app: FastifyInstance
  metrics: Registry
  /** Requests that are being handled, the latest last. */
  handled: string[]
  /** How many requests have begun. */
  begun(): number
  /** Read of all bodies so far. */
  bodyBytes(): number
  /** How many answers of `/large` wait for their readers. */
  largeSent(): number
  /** Lets the oldest of them be answered. */
  answer(): void
  /** From an address of 127.0.0.0/8. */
  dial(from?: string): Promise<Client>
}

export interface Client {
  socket: Socket
  received(): string
  closed: Promise<void>
  isOpen(): boolean
}

/** A host whose `/held` waits until the test releases it. */
export async function listening(
  t: Test,
  {
    drainMs,
    routes,
    ...options
  }: Partial<HttpHostOptions> & { drainMs?: number; routes?: (app: FastifyInstance) => void } = {},
): Promise<DialledHost> {
  const metrics = new Registry()
  const app = createHttpHost({
    ...ownParts,
    isBanned: undefined,
    name: 'api',
    log: pino({ level: 'silent' }),
    metrics,
    trustProxy: false,
    cors: false,
    rateLimits: createRateLimits({ mode: 'off', clock: systemClock }),
    ...options,
  })
  if (drainMs !== undefined) drainOnClose(app, { drainMs })
  const handled: string[] = []
  const waiting: (() => void)[] = []
  app.get('/held/:name', async (request) => {
    handled.push((request.params as { name: string }).name)
    await new Promise<void>((resolve) => waiting.push(resolve))
    return ok({ address: clientAddress(request) })
  })
  let begun = 0
  let bodyBytes = 0
  app.addHook('onRequest', (request, _reply, done) => {
    begun++
    // Routes of a test read for themselves.
    if (routes === undefined)
      request.raw.on('data', (piece: Buffer) => {
        bodyBytes += piece.length
      })
    done()
  })
  let largeSent = 0
  app.get('/large', (_request, reply) => {
    reply.hijack()
    reply.raw.end(Buffer.alloc(largeBytes))
    largeSent++
  })
  app.get('/now', async (request) => ok({ address: clientAddress(request) }))
  app.post('/body', async () => ok({}))
  routes?.(app)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as { port: number }
  const sockets: Socket[] = []
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    for (const one of waiting) one()
    await app.close()
  })
  return {
    app,
    metrics,
    handled,
    begun: () => begun,
    bodyBytes: () => bodyBytes,
    largeSent: () => largeSent,
    answer: () => waiting.shift()?.(),
    async dial(from = '127.0.0.1') {
      const socket = connect({ port, host: '127.0.0.1', localAddress: from })
      sockets.push(socket)
      let text = ''
      let open = true
      socket.setEncoding('latin1').on('data', (more: string) => {
        text += more
      })
      socket.on('error', () => {})
      // One that nothing was read of ends with an error.
      const closed = new Promise<void>((resolve) => {
        socket.once('close', () => {
          open = false
          resolve()
        })
      })
      await once(socket, 'connect')
      return { socket, received: () => text, closed, isOpen: () => open }
    },
  }
}

export const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`

async function figure(metrics: Registry, name: string, labels: Record<string, string>): Promise<number> {
  const { values } = (await metrics.getSingleMetric(name)?.get()) ?? { values: [] }
  const found = values.find(({ labels: has }) =>
    Object.entries(labels).every(([key, value]) => has[key] === value),
  )
  return found?.value ?? 0
}

export const open = (held: DialledHost) => figure(held.metrics, 'holdfast_connections', { host: 'api' })

export const refused = (held: DialledHost, reason: string) =>
  figure(held.metrics, 'holdfast_connections_refused_total', { host: 'api', reason })

export const evicted = (held: DialledHost, reason: string) =>
  figure(held.metrics, 'holdfast_connections_evicted_total', { host: 'api', reason })

/** Elsewhere Node accepts one in a turn. */
export const onLinux = { skip: process.platform !== 'linux' && 'accept4 is a call of Linux' }

/** A connection counts as about to send for a second. */
export const idle = () => new Promise((resolve) => setTimeout(resolve, 1_050))

/** All in one tick: the system has them in the listener's queue before the loop continues. */
export function crowd(t: Test, held: DialledHost, count: number) {
  const { port } = held.app.server.address() as { port: number }
  return Array.from({ length: count }, () => {
    const client = { socket: connect({ port, host: '127.0.0.1' }), received: '' }
    client.socket.setEncoding('latin1').on('data', (more: string) => {
      client.received += more
    })
    client.socket.on('error', () => {})
    t.teardown(() => client.socket.destroy())
    return client
  })
}

/** A clock that advances only by command. */
export function handClock() {
  let nowMs = 1_000
  const clock: Clock = { now: () => nowMs, monotonic: () => nowMs }
  return {
    clock,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

const unfinished = (headers = '') =>
  `POST /body HTTP/1.1\r\nHost: x\r\n${headers}Content-Length: 1000\r\n\r\n{`

/** Requests whose body does not arrive, each on its connection. */
export async function dialSlow(held: DialledHost, from: string[], headers?: string): Promise<Client[]> {
  const clients: Client[] = []
  for (const address of from) {
    const client = await held.dial(address)
    const before = held.begun()
    client.socket.write(unfinished(headers))
    await until(() => held.begun() > before)
    clients.push(client)
  }
  return clients
}

/** @returns the code, or the fate of the connection */
export async function ask(held: DialledHost, from: string, headers?: string): Promise<string> {
  const client = await held.dial(from)
  client.socket.write(get('/now', headers))
  await until(() => client.received() !== '' || !client.isOpen())
  return /^HTTP\/1\.1 (\d+)/.exec(client.received())?.[1] ?? 'closed'
}

export const openOf = (clients: Client[]) => clients.filter((client) => client.isOpen()).length
