import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { Writable } from 'node:stream'
import { AnswerBudget } from '@holdfast/http-kit'
import { plainBudget } from '@holdfast/http-kit/testing'
import { systemClock } from '@holdfast/kernel'
import type { FileView } from '@holdfast/wire'
import fc from 'fast-check'
import t from 'tap'
import { growsLinearly } from '../../../test/support/growth.ts'
import { evaluate, rangeHolds } from '../src/bytes/conditions.ts'
import { isFromStart, parseRanges } from '../src/bytes/ranges.ts'
import { ResponseBody, sendWhole } from '../src/bytes/response-body.ts'
import { fileHeaders } from '../src/bytes/safe-headers.ts'
import { RecentAnswers } from '../src/links/recent-answers.ts'

const MiB = 1024 * 1024

t.test('ranges have the meaning of RFC 9110', async (t) => {
  const cases: [header: string | undefined, size: number, expected: [number, number][] | undefined][] = [
    ['bytes=0-0', 10, [[0, 1]]],
    ['bytes=0-', 10, [[0, 10]]],
    ['bytes=9-9', 10, [[9, 10]]],
    ['bytes=5-99', 10, [[5, 10]]],
    ['bytes=-3', 10, [[7, 10]]],
    ['bytes=-99', 10, [[0, 10]]],
    [
      'BYTES= 1-2 , 4-5',
      10,
      [
        [1, 3],
        [4, 6],
      ],
    ],
    ['bytes=,1-2,,', 10, [[1, 3]]],
    [
      'bytes=4-5,1-2',
      10,
      [
        [4, 6],
        [1, 3],
      ],
    ],
    ['bytes=10-', 10, []],
    ['bytes=-0', 10, []],
    ['bytes=10-,-0', 10, []],
    ['bytes=10-,1-1', 10, [[1, 2]]],
    ['bytes=99999999999999999999-', 10, []],
    ['bytes=0-99999999999999999999', 10, [[0, 10]]],
    ['bytes=0-4,2-6', 10, [[0, 7]]],
    ['bytes=0-1,2-3', 10, [[0, 4]]],
    ['bytes=8-9,0-1,2-8', 10, [[0, 10]]],
    ['bytes=2-1', 10, undefined],
    ['bytes=1', 10, undefined],
    ['bytes=-', 10, undefined],
    ['bytes=', 10, undefined],
    ['bytes=a-b', 10, undefined],
    ['bytes=1-2;3-4', 10, undefined],
    ['bytes=+1-2', 10, undefined],
    ['items=0-1', 10, undefined],
    [undefined, 10, undefined],
    ['bytes=0-0', 0, undefined],
    ['bytes=-1', 0, undefined],
    [
      `bytes=${new Array(64).fill(0).map((_, at) => `${at * 2}-${at * 2}`)}`,
      1000,
      new Array(64).fill(0).map((_, at) => [at * 2, at * 2 + 1]),
    ],
    [`bytes=${new Array(65).fill('0-0')}`, 10, undefined],
  ]
  for (const [header, size, expected] of cases) {
    const seen = parseRanges(header, size)
    t.same(
      seen?.map(({ start, end }) => [start, end]),
      expected,
      `${header?.slice(0, 60)} of ${size}`,
    )
  }
  fc.assert(
    fc.property(fc.string(), fc.nat(100), (text, size) => {
      const ranges = parseRanges(`bytes=${text}`, size) ?? []
      const bytes = ranges.reduce((sum, { start, end }) => sum + end - start, 0)
      return bytes <= size && ranges.every(({ start, end }) => 0 <= start && start < end && end <= size)
    }),
  )
})

t.test('conditions are evaluated in their order', async (t) => {
  const validators = { etag: '"e"', modifiedSeconds: 1_000_000_000 }
  const at = new Date(1_000_000_000_000).toUTCString()
  const before = new Date(999_999_999_000).toUTCString()
  const after = new Date(1_000_000_001_000).toUTCString()
  const verdict = (headers: Record<string, string>) => evaluate(headers, validators)
  t.equal(verdict({}), 'continue')
  t.equal(verdict({ 'if-none-match': '"e"' }), 'not modified')
  t.equal(verdict({ 'if-none-match': 'W/"e"' }), 'not modified')
  t.equal(verdict({ 'if-none-match': '"a", "e"' }), 'not modified')
  t.equal(verdict({ 'if-none-match': '*' }), 'not modified')
  t.equal(verdict({ 'if-none-match': '"a"', 'if-modified-since': at }), 'continue', 'the ETag decides')
  t.equal(verdict({ 'if-modified-since': at }), 'not modified')
  t.equal(verdict({ 'if-modified-since': after }), 'not modified')
  t.equal(verdict({ 'if-modified-since': before }), 'continue')
  t.equal(verdict({ 'if-modified-since': 'nonsense' }), 'continue')
  t.equal(verdict({ 'if-match': '"a"' }), 'failed')
  t.equal(verdict({ 'if-match': '"a", "e"' }), 'continue')
  t.equal(verdict({ 'if-match': 'W/"e"' }), 'failed', 'weak ones do not match strongly')
  t.equal(verdict({ 'if-unmodified-since': before }), 'failed')
  t.equal(verdict({ 'if-unmodified-since': at }), 'continue')
  t.equal(verdict({ 'if-match': '"e"', 'if-unmodified-since': before }), 'continue', 'the ETag decides')
  t.equal(rangeHolds({}, validators), true)
  t.equal(rangeHolds({ 'if-range': '"e"' }, validators), true)
  t.equal(rangeHolds({ 'if-range': 'W/"e"' }, validators), false)
  t.equal(rangeHolds({ 'if-range': '"a"' }, validators), false)
  t.equal(rangeHolds({ 'if-range': at }, validators), true)
  t.equal(rangeHolds({ 'if-range': after }, validators), false, 'a date holds only when it is the same')
  t.equal(rangeHolds({ 'if-range': 'nonsense' }, validators), false)
})

t.test('only types that cannot run are shown inline', async (t) => {
  const shown = (type: string) => fileHeaders('x', type, { inPlace: true })
  for (const type of [
    'image/png',
    'image/jpeg',
    'video/mp4',
    'audio/mpeg',
    'application/pdf',
    'text/plain',
  ]) {
    t.match(shown(type)['content-disposition'], /^inline/, type)
  }
  for (const type of [
    'text/html',
    'image/svg+xml',
    'application/xhtml+xml',
    'text/xml',
    'application/xml',
    'text/javascript',
    'text/css',
    'multipart/mixed',
    'application/x-shockwave-flash',
    'TEXT/HTML',
    'text/plain,text/html',
    'nonsense',
    '',
    'a/b\r\nX-Evil: 1',
  ]) {
    const headers = shown(type)
    t.match(headers['content-disposition'], /^attachment/, type)
    t.match(headers['content-security-policy'], /default-src 'none'.*sandbox/)
    t.match(headers, { 'x-content-type-options': 'nosniff', 'cross-origin-resource-policy': 'cross-origin' })
    t.notMatch(Object.values(headers).join(''), /[\r\n]/)
  }
  t.equal(shown('Text/Plain; charset=koi8-r')['content-type'], 'text/plain; charset=utf-8')
})

t.test('where the origin holds more than files, no type is shown in place', async (t) => {
  for (const type of ['application/pdf', 'image/png', 'text/plain', 'text/html']) {
    const headers = fileHeaders('x', type, { inPlace: false })
    t.match(headers['content-disposition'], /^attachment/, type)
    t.match(headers['content-security-policy'], /sandbox/, type)
  }
})

t.test('any name survives a header unchanged, except for marks of direction', async (t) => {
  const server = createServer((asked, response) => {
    const name = JSON.parse(decodeURIComponent(asked.url?.slice(1) ?? ''))
    response.writeHead(200, fileHeaders(name, 'text/html', { inPlace: true })).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const dispositionOf = (name: string) =>
    new Promise<string>((resolve, reject) => {
      const path = `/${encodeURIComponent(JSON.stringify(name))}`
      request({ port, path }, (response: IncomingMessage) => {
        response.resume()
        resolve(response.headers['content-disposition'] ?? '')
      })
        .on('error', reject)
        .end()
    })
  const name = fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 100 }),
    fc.constantFrom('a"b', "it's (1)*!.txt", '100%.txt', 'x\\y', '\u202etxt.exe', '\ud800', 'ü.html'),
  )
  await fc.assert(
    fc.asyncProperty(name, async (name) => {
      const disposition = await dispositionOf(name)
      const [, ascii, extended] =
        /^attachment; filename="([ -!#-$&-.0-[\]-~_]*)"(?:; filename\*=UTF-8''([A-Za-z0-9!#$&+.^_`|~%-]+))?$/.exec(
          disposition,
        ) ?? []
      if (ascii === undefined) return false
      const harmless = name.toWellFormed().replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '_')
      return (extended === undefined ? ascii : decodeURIComponent(extended)) === harmless
    }),
    { numRuns: 300 },
  )
})

t.test("visitors' answers are shared for moments; refusals and owners' answers are never kept", async (t) => {
  let now = 0
  const recent = new RecentAnswers({ now: () => now, monotonic: () => now })
  let asked = 0
  const answer =
    (isOwner = false) =>
    async (): Promise<FileView> => {
      asked += 1
      return { item: undefined, isOwner, ends: undefined }
    }
  await Promise.all([recent.ofVisitor('a', answer()), recent.ofVisitor('a', answer())])
  await recent.ofVisitor('a', answer())
  t.equal(asked, 1)
  now = 3_000
  await recent.ofVisitor('a', answer())
  t.equal(asked, 2, 'not longer than promised')
  await recent.ofVisitor('b', answer(true))
  await recent.ofVisitor('b', answer(true))
  t.equal(asked, 4)
  for (let at = 0; at < 2; at++) {
    await t.rejects(
      recent.ofVisitor('c', async () => {
        asked += 1
        throw new Error('refused')
      }),
    )
  }
  t.equal(asked, 6)
  // A late answer belongs to an early question.
  const late = Promise.withResolvers<FileView>()
  const waiting = recent.ofVisitor('d', () => late.promise)
  now += 2_600
  late.resolve({ item: undefined, isOwner: false, ends: undefined })
  await waiting
  await recent.ofVisitor('d', answer())
  t.equal(asked, 7)
})

t.test("a visitor's answer ends at the second of the expiry, also for waiting callers", async (t) => {
  let now = 1_000_000
  const recent = new RecentAnswers({ now: () => now, monotonic: () => now })
  let asked = 0
  const answer = (ends?: number) => async (): Promise<FileView> => {
    asked += 1
    return { item: undefined, isOwner: false, ends }
  }
  await recent.ofVisitor('a', answer(1_001))
  now = 1_000_999
  await recent.ofVisitor('a', answer())
  t.equal(asked, 1)
  now = 1_001_000
  await t.rejects(
    recent.ofVisitor('a', () => Promise.reject(new Error('refused'))),
    { message: 'refused' },
  )
  await recent.ofVisitor('a', answer(1_005))
  t.equal(asked, 2)
  await recent.ofVisitor('a', answer())
  t.equal(asked, 2, 'a later expiry')

  const late = Promise.withResolvers<FileView>()
  const first = recent.ofVisitor('b', () => late.promise)
  const second = recent.ofVisitor('b', () => Promise.reject(new Error('refused')))
  now = 1_002_000
  late.resolve({ item: undefined, isOwner: false, ends: 1_002 })
  await first
  await t.rejects(second, { message: 'refused' })
})

t.test(
  "an owner's answer is valid while the account is unchanged, and is asked for where that is unknown",
  async (t) => {
    let now = 0
    const recent = new RecentAnswers({ now: () => now, monotonic: () => now })
    let asked = 0
    const answer = async (): Promise<FileView> => {
      asked += 1
      return { item: undefined, isOwner: true, ends: undefined }
    }
    const moments = [{}, {}]
    await recent.ofOwner('a', undefined, answer)
    await recent.ofOwner('a', undefined, answer)
    t.equal(asked, 2)
    await Promise.all([recent.ofOwner('a', moments[0], answer), recent.ofOwner('a', moments[0], answer)])
    await recent.ofOwner('a', moments[0], answer)
    t.equal(asked, 3)
    await recent.ofOwner('a', moments[1], answer)
    t.equal(asked, 4, 'the account was changed')
    await recent.ofOwner('a', undefined, answer)
    t.equal(asked, 5, 'the account left')
    now += 3_000
    await recent.ofOwner('a', moments[1], answer)
    t.equal(asked, 6, 'for moments only')
  },
)

t.test('an arrived answer is used without awaiting it, while it is valid', async (t) => {
  let now = 1_000_000
  const recent = new RecentAnswers({ now: () => now, monotonic: () => now })
  const view = (isOwner: boolean, ends?: number): FileView => ({ item: undefined, isOwner, ends })
  const [before, after] = [{}, {}]

  const late = Promise.withResolvers<FileView>()
  const waiting = recent.ofVisitor('visitor', () => late.promise)
  t.equal(recent.arrived('visitor', undefined), undefined, 'not before it has arrived')
  const visitors = view(false, 1_002)
  late.resolve(visitors)
  await waiting
  t.equal(recent.arrived('visitor', undefined), visitors)
  now = 1_002_000
  t.equal(recent.arrived('visitor', undefined), undefined, 'not after its expiry')

  const owners = view(true)
  await recent.ofVisitor('owner as a visitor', async () => owners)
  t.equal(recent.arrived('owner as a visitor', undefined), undefined)
  await recent.ofOwner('owner', before, async () => owners)
  t.equal(recent.arrived('owner', before), owners)
  t.equal(recent.arrived('owner', after), undefined, 'the account was changed')
  t.equal(recent.arrived('owner', undefined), undefined, 'the account left')
  await t.rejects(recent.ofOwner('refused', before, () => Promise.reject(new Error('refused'))))
  t.equal(recent.arrived('refused', before), undefined)
  now += 2_500
  t.equal(recent.arrived('owner', before), undefined, 'for moments only')
})

t.test('a reader that reads nothing is dropped, one that reads a little is not', async (t) => {
  const ended = Promise.withResolvers<Error | undefined>()
  async function* endless() {
    for (;;) yield Buffer.alloc(64 * 1024)
  }
  async function* some() {
    for (let at = 0; at < 10; at++) {
      await new Promise((resolve) => setTimeout(resolve, 50))
      yield Buffer.alloc(1024)
    }
  }
  // A piece of 64 KiB may take four times 200 ms.
  const pace = { progressBytes: 16 * 1024, progressMs: 200 }
  const server = createServer((asked, response) => {
    new ResponseBody(asked.url === '/some' ? some : endless, () => {}, pace)
      .sendTo(response)
      .catch(ended.resolve)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const some_ = await fetch(`http://127.0.0.1:${port}/some`)
  t.equal((await some_.arrayBuffer()).byteLength, 10_240)
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.pause()
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  t.match(await ended.promise, { message: 'the reader is too slow' })
  socket.destroy()
})

for (const { pieceBytes, pieces, atFirst, perTurn } of [
  { pieceBytes: 64 * 1024, pieces: 8, atFirst: 20, perTurn: 6 },
  // Sixty-four ranges of a byte, for example: some are made before the clock is asked.
  { pieceBytes: 1, pieces: 32, atFirst: 80, perTurn: 12 },
])
  t.test(
    `many bodies in pieces of ${pieceBytes} take a few milliseconds of a turn of the loop`,
    async (t) => {
      let nowMs = 0
      const answers = new AnswerBudget({ ...plainBudget, clock: { ...systemClock, monotonic: () => nowMs } })
      let made = 0
      async function* source() {
        for (let at = 0; at < pieces; at++) {
          made++
          nowMs += 2
          yield Buffer.alloc(pieceBytes)
        }
      }
      const sink = () => new Writable({ write: (_piece, _encoding, taken) => taken() })
      const bodies = Array.from({ length: 10 }, (_, at) => {
        const response = sink() as unknown as ServerResponse
        return new ResponseBody(source, () => {}).sendTo(
          response,
          answers.open(`network ${at}`, () => {}),
        )
      })
      // Each makes its first piece at once: until then a fault gets a proper answer.
      await new Promise((resolve) => setImmediate(resolve))
      t.ok(made <= atFirst + perTurn, `${made} at first`)
      for (let before = made; made < 10 * pieces; before = made) {
        await new Promise((resolve) => setImmediate(resolve))
        t.ok(made - before <= perTurn, `${made - before} in a turn`)
      }
      await Promise.all(bodies)
    },
  )

t.test('a client that closes ends the source at once, in a write or a wait', async (t) => {
  for (const waits of [false, true]) {
    const begun = Promise.withResolvers<void>()
    const freed = Promise.withResolvers<void>()
    const sent = Promise.withResolvers<void>()
    async function* source(signal: AbortSignal) {
      try {
        for (let at = 0; ; at++) {
          if (at === 1) begun.resolve()
          if (at === 1 && waits) await once(signal, 'abort')
          if (signal.aborted) return
          yield Buffer.alloc(256 * 1024)
        }
      } finally {
        freed.resolve()
      }
    }
    const server = createServer((_, response) => {
      new ResponseBody(source, () => {}).sendTo(response).then(sent.resolve, sent.reject)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await begun.promise
    socket.destroy()
    await Promise.all([freed.promise, sent.promise])
    t.pass(waits ? 'while the source was waited for' : 'while the socket was full')
    server.close()
  }
})

t.test(
  'a body of one piece is released once: when it was accepted, or its reader closes or is too slow',
  async (t) => {
    const pace = { progressBytes: 64 * MiB, progressMs: 200 }
    for (const how of ['taken', 'gone', 'slow']) {
      const released = Promise.withResolvers<void>()
      let releases = 0
      let sent = 0
      const bytes = Buffer.alloc(how === 'taken' ? 64 * 1024 : 64 * MiB, how)
      const release = () => {
        releases++
        released.resolve()
      }
      const server = createServer((_, response) => {
        response.writeHead(200, { 'content-length': bytes.length })
        sendWhole(response, { bytes, release }, (count) => (sent += count), how === 'slow' ? pace : undefined)
      })
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      const { port } = server.address() as AddressInfo
      if (how === 'taken') {
        const answer = await fetch(`http://127.0.0.1:${port}/`)
        t.ok(bytes.equals(Buffer.from(await answer.arrayBuffer())))
      } else {
        const socket = connect(port, '127.0.0.1')
        socket.on('error', () => {})
        socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
        await once(socket, 'readable')
        if (how === 'gone') socket.destroy()
        else t.teardown(() => socket.destroy())
      }
      await released.promise
      t.equal(sent, how === 'taken' ? bytes.length : 0, how)
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
      t.equal(releases, 1)
    }
  },
)

t.test('a source that fails cuts the connection', async (t) => {
  const failed = Promise.withResolvers<unknown>()
  async function* source() {
    yield Buffer.alloc(10)
    throw new Error('damaged')
  }
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-length': 20 })
    new ResponseBody(source, () => {}).sendTo(response).catch(failed.resolve)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const answer = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`).catch(
    () => undefined,
  )
  await t.rejects(answer?.arrayBuffer() ?? Promise.reject(new Error('no head')))
  t.match(await failed.promise, { message: 'damaged' })
})

t.test('the time to read a Range header grows with its length, for any content', async (t) => {
  const headers: Record<string, (n: number) => string> = {
    'blanks behind the equals sign': (n) => `bytes=${' '.repeat(n)}x`,
    'blanks around it': (n) => `bytes${' '.repeat(n / 2)}=${' '.repeat(n / 2)}x`,
    zeros: (n) => `bytes=${'0'.repeat(n)}x`,
    ranges: (n) => `bytes=${'0-1,'.repeat(n / 4)}`,
    digits: (n) => `bytes=${'1'.repeat(n)}-x`,
  }
  for (const [what, make] of Object.entries(headers)) {
    for (const [how, read] of [
      ['parseRanges', (header: string) => parseRanges(header, 100)],
      ['isFromStart', isFromStart],
    ] as const) {
      const { linear, growth } = growsLinearly(make, read)
      t.ok(linear, `${how}, ${what}: ${growth.toFixed(1)} times for 8 times the bytes`)
    }
  }
  for (const header of ['bytes=', 'bytes=0', 'bytes = 0-', ' bytes=00- ']) t.ok(isFromStart(header), header)
  for (const header of ['bytes=1-', 'bytes=0-1', 'bytes', 'Bytes=0-']) t.notOk(isFromStart(header), header)
})
