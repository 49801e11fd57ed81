/** The bounds of scans: turns, deadlines, and what happens beyond them. */

import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type BlobInfo, MemoryBlobStore } from '@holdfast/blob-store'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { systemClock } from '@holdfast/kernel'
import { BlockLists } from '@holdfast/moderation'
import t, { type Test } from 'tap'
import { until } from '../../../test/support/until.ts'
import { ContentScans, type Scanner, type ScanSettings } from '../src/index.ts'
import { ClamdScanner } from '../src/scanning/clamd-scanner.ts'

const clean = { isClean: true } as const
const noOutcomes = { clean: 0, found: 0, failed: 0, known: 0, larger: 0, lifted: 0 }

/** Each scan waits until the test answers it. */
class HeldScanner implements Scanner {
  readonly name = 'held'
  readonly started: string[] = []
  #answers: ((text: string) => void)[] = []

  async scan(content: AsyncIterable<Uint8Array>) {
    const pieces: Buffer[] = []
    for await (const piece of content) pieces.push(Buffer.from(piece))
    this.started.push(Buffer.concat(pieces).toString())
    const found = await new Promise<string>((resolve) => this.#answers.push(resolve))
    return found === '' ? clean : ({ isClean: false, found } as const)
  }

  answer(found = ''): void {
    this.#answers.shift()?.(found)
  }
}

async function start(
  t: Test,
  scanner: Scanner,
  { retryMs = 20, ...more }: Partial<ScanSettings> & { retryMs?: number } = {},
) {
  const lists = await BlockLists.open({
    lookups: new MemoryLookupStore(),
    clock: systemClock,
    onChange: undefined,
  })
  const blobs = new MemoryBlobStore()
  const faults: string[] = []
  const scans = new ContentScans({
    scanner,
    settings: { deadlineMs: 60_000, bytesMax: 1_000, atOnceMax: 1, onFailure: 'refuse', ...more },
    lists,
    clock: systemClock,
    retryMs,
    onFault: (error) => faults.push((error as Error).message),
    onFound: () => {},
  })
  t.teardown(() => scans.close())
  const stored = async (text: string): Promise<BlobInfo> => {
    const stage = await blobs.stage()
    await stage.write(Buffer.from(text))
    return await stage.commit({ pinMs: 60_000 })
  }
  const judge = async (text: string, network = 'a') =>
    await scans.judge({ blob: await stored(text), blobs, network })
  return { scans, lists, faults, judge }
}

t.test('a scanner that fails is tried until it gives a verdict, and not after that', async (t) => {
  let scans = 0
  let isDown = true
  const scanner: Scanner = {
    name: 'down',
    async scan(content) {
      scans++
      for await (const _ of content);
      if (isDown) throw new Error('it is down')
      return clean
    },
  }
  const { scans: asked, faults, judge } = await start(t, scanner)
  t.equal(await judge('1'), 'unavailable')
  t.equal(asked.figures.failing, 'it is down')
  await until(() => scans >= 3)
  t.equal(asked.figures.failing, 'it is down')
  isDown = false
  await until(() => asked.figures.failing === undefined)
  const before = scans
  await new Promise((resolve) => setTimeout(resolve, 100))
  t.equal(scans, before)
  t.strictSame(asked.figures.outcomes, { ...noOutcomes, failed: 1 }, 'tries are no scans of content')
  t.strictSame(faults, ['it is down'])
})

t.test('networks take turns', async (t) => {
  const scanner = new HeldScanner()
  const { scans, judge } = await start(t, scanner)
  const all = ['1', '2', '3'].map((text) => judge(text, 'crowd'))
  await until(() => scans.figures.underWay === 3)
  all.push(judge('4', 'other'))
  await until(() => scans.figures.underWay === 4)
  for (let done = 1; done <= 4; done++) {
    await until(() => scanner.started.length === done)
    scanner.answer()
  }
  t.strictSame(await Promise.all(all), Array(4).fill('good'))
  t.strictSame(scanner.started, ['1', '4', '2', '3'])
})

t.test('the wait for a turn is a part of the deadline, and a late turn scans nothing', async (t) => {
  const scanner = new HeldScanner()
  // A try of the scanner after the fault would take a turn, too.
  const { faults, judge } = await start(t, scanner, { deadlineMs: 1_000, retryMs: 60_000 })
  t.strictSame(await Promise.all([judge('1'), judge('2')]), ['unavailable', 'unavailable'])
  t.strictSame(faults, ['no verdict within 1 s', 'no verdict within 1 s'])
  scanner.answer()
  const next = judge('3')
  await until(() => scanner.started.length === 2)
  scanner.answer()
  t.equal(await next, 'good')
  t.strictSame(scanner.started, ['1', '3'])
})

t.test('more than may wait are refused at once, or stored where the operator chose that', async (t) => {
  for (const [onFailure, judgement] of [
    ['refuse', 'unavailable'],
    ['accept', 'good'],
  ] as const) {
    const { scans, faults, judge } = await start(t, new HeldScanner(), { onFailure })
    for (let n = 0; n <= 256; n++) void judge(`${n}`)
    await until(() => scans.figures.underWay === 257)
    t.equal(await judge('one more'), judgement)
    t.match(faults, ['256 scans wait already'])
  }
})

t.test('a close ends all scans', async (t) => {
  const { scans, judge } = await start(t, new HeldScanner())
  const all = [judge('1'), judge('2')]
  await until(() => scans.figures.underWay === 2)
  scans.close()
  t.strictSame(await Promise.all(all), ['unavailable', 'unavailable'])
  t.equal(await judge('3'), 'unavailable')
})

t.test('half of the block list stays for the operator', async (t) => {
  const scanner = new HeldScanner()
  const { lists, judge } = await start(t, scanner)
  const names = Array.from({ length: 50_000 }, (_, n) => n.toString(16).padStart(64, '0'))
  await lists.block('content', names, { by: 'ann', reason: '' })
  const found = judge('bad')
  await until(() => scanner.started.length === 1)
  scanner.answer('Evil')
  t.equal(await found, 'blocked')
  t.equal(lists.count('content'), 50_000)
})

t.test('clamd may answer before it has all of the content, and may close the connection', async (t) => {
  const answers: Record<string, (socket: Socket) => void> = {
    found: (socket) => socket.end('stream: Evil.Thing FOUND\0'),
    reset: (socket) => socket.resetAndDestroy(),
    closed: (socket) => socket.end(),
    nonsense: (socket) => socket.end('x'.repeat(100_000)),
  }
  for (const [name, answer] of Object.entries(answers)) {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => answer(socket))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const scanner = new ClamdScanner({ host: '127.0.0.1', port })
    let isEnded = false
    const endless = async function* () {
      try {
        for (;;) yield Buffer.alloc(65_536)
      } finally {
        isEnded = true
      }
    }
    const scan = scanner.scan(endless(), { signal: AbortSignal.timeout(20_000) })
    if (name === 'found') t.strictSame(await scan, { isClean: false, found: 'Evil.Thing' })
    else if (name === 'reset')
      await t.rejects(scan, { code: 'SCAN', message: /StreamMaxLength may be below/ })
    else await t.rejects(scan, { code: 'SCAN' }, name)
    t.ok(isEnded, 'the reader of the content ended')
    server.close()
  }
})

t.test('a fault of the content is not one of the scanner', async (t) => {
  const server = createServer((socket) => socket.on('error', () => {}).resume()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const broken = async function* () {
    yield Buffer.from('a')
    throw new Error('the disk is broken')
  }
  const scan = new ClamdScanner({ host: '127.0.0.1', port }).scan(broken(), {
    signal: AbortSignal.timeout(20_000),
  })
  await t.rejects(scan, { message: 'the disk is broken' })
})
