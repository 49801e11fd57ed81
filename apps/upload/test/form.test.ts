import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Busboy } from '@fastify/busboy'
import { PiecewiseRequest, RefusalError } from '@holdfast/http-kit'
import fc from 'fast-check'
import t from 'tap'
import { growsLinearly } from '../../../test/support/growth.ts'
import { parseDisposition } from '../src/content-disposition.ts'
import { fileType } from '../src/file-type.ts'
import { anyPartHead, FormMemory, FormScanner, partHead } from '../src/form-scanner.ts'
import { requestBytes, slowestUploadPace } from '../src/request-bytes.ts'

interface Part {
  name: string | undefined
  fileName: string | undefined
  type: string | undefined
  body: Buffer
}

/**
 * One for all, as in a host: what one form adds to the cache must not change how another is read.
 */
const memory = new FormMemory()

/** All parts of a body that arrives in pieces of these sizes, taken in turn. */
function scan(boundary: string, body: Buffer, sizes: number[] = [body.length || 1]): Part[] {
  const scanner = new FormScanner(`multipart/form-data; boundary="${boundary}"`, memory)
  const parts: (Part & { pieces: Buffer[] })[] = []
  for (let at = 0, turn = 0; at < body.length; turn++) {
    const size = sizes[turn % sizes.length] as number
    // The scanner must not keep views of a chunk.
    const chunk = Buffer.from(body.subarray(at, at + size))
    scanner.feed(chunk)
    for (let event = scanner.next(); event !== undefined; event = scanner.next()) {
      if (event.kind === 'part') parts.push({ ...event.part, pieces: [], body: Buffer.alloc(0) })
      if (event.kind === 'data') parts.at(-1)?.pieces.push(Buffer.from(event.bytes))
    }
    chunk.fill(0)
    at += size
  }
  scanner.end()
  return parts.map(({ pieces, ...part }) => ({ ...part, body: Buffer.concat(pieces) }))
}

function write(boundary: string, parts: { head: string; body: Buffer }[]): Buffer {
  return Buffer.concat([
    ...parts.flatMap(({ head, body }) => [
      Buffer.from(`--${boundary}\r\n${head}\r\n\r\n`),
      body,
      Buffer.from('\r\n'),
    ]),
    Buffer.from(`--${boundary}--\r\n`),
  ])
}

/** The result of fastify's parser. */
function busboy(
  boundary: string,
  body: Buffer,
): Promise<{ name: string; fileName: string | undefined; body: Buffer }[]> {
  return new Promise((resolve, reject) => {
    const boy = new Busboy({
      headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
      preservePath: true,
      defCharset: 'latin1',
      isPartAFile: (_name, _type, fileName) => fileName !== undefined,
    })
    const parts: { name: string; fileName: string | undefined; body: Buffer }[] = []
    boy.on('field', (name, value) =>
      parts.push({ name, fileName: undefined, body: Buffer.from(value, 'latin1') }),
    )
    boy.on('file', (name, stream, fileName) => {
      const part = { name, fileName, body: Buffer.alloc(0) }
      parts.push(part)
      stream.on('data', (bytes: Buffer) => {
        part.body = Buffer.concat([part.body, bytes])
      })
    })
    boy.on('finish', () => resolve(parts))
    boy.on('error', reject)
    boy.end(body)
  })
}

const boundary = '----b0undary'
/** Bytes that almost look like a boundary. */
const tricky = fc.constantFrom(
  '\r',
  '\n',
  '\r\n',
  '\r\n-',
  '\r\n--',
  '\r\n------b0undar',
  '--',
  '-',
  `--${boundary.slice(1)}`,
)
const bodies = fc
  .array(
    fc.oneof(
      tricky.map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 40 }).map((b) => Buffer.from(b)),
    ),
    {
      maxLength: 8,
    },
  )
  .map((pieces) => Buffer.concat(pieces))
  .filter(
    (body) => !Buffer.concat([Buffer.from('\r\n'), body, Buffer.from('\r\n')]).includes(`\r\n--${boundary}`),
  )

t.test('a form has one meaning in every division into chunks, and the same as in fastify', async (t) => {
  const parts = fc.array(
    fc.record({ name: fc.stringMatching(/^[a-z]{1,5}$/), isFile: fc.boolean(), body: bodies }),
    { minLength: 1, maxLength: 5 },
  )
  const sizes = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 10 })
  await fc.assert(
    fc.asyncProperty(parts, sizes, async (parts, sizes) => {
      const bytes = write(
        boundary,
        parts.map(({ name, isFile, body }) => ({
          head: `Content-Disposition: form-data; name="${name}"${isFile ? `; filename="${name}.bin"` : ''}`,
          body,
        })),
      )
      const whole = scan(boundary, bytes)
      const cut = scan(boundary, bytes, sizes)
      const theirs = await busboy(boundary, bytes)
      t.same(cut, whole)
      t.same(
        whole.map(({ name, fileName, body }) => ({ name, fileName, body })).sort(byName),
        // Busboy reports fields as they end and files as they begin.
        theirs.map(({ name, fileName, body }) => ({ name, fileName, body })).sort(byName),
      )
      t.same(
        whole.map(({ body }) => body),
        parts.map(({ body }) => body),
      )
    }),
    { numRuns: 150 },
  )
})

function byName(
  a: { name: string | undefined; body: Buffer },
  b: { name: string | undefined; body: Buffer },
): number {
  return `${a.name}`.localeCompare(`${b.name}`) || Buffer.compare(a.body, b.body)
}

t.test('a body full of delimiter prefixes is a body', async (t) => {
  for (const start of ['\r\n--', `\r\n--${boundary.slice(0, -1)}`]) {
    const body = Buffer.from(start.repeat(100))
    const head = 'Content-Disposition: form-data; name="file"; filename="a"'
    const bytes = write(boundary, [
      { head, body },
      { head, body: Buffer.from('more') },
    ])
    for (const size of [bytes.length, 100, 7])
      t.same(
        scan(boundary, bytes, [size]).map((part) => part.body.toString()),
        [body.toString(), 'more'],
        `in pieces of ${size} bytes`,
      )
  }
})

t.test('a delimiter is found in large chunks after any bytes', async (t) => {
  const head = 'Content-Disposition: form-data; name="file"; filename="a"'
  const chunk = fc.integer({ min: 16 * 1024, max: 70_000 })
  const filling = fc.oneof(
    tricky.map((text) => Buffer.from(text)),
    fc.uint8Array({ minLength: 1, maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
  )
  const starts = fc.array(fc.integer({ min: 0, max: 99_000 }), { maxLength: 40 })
  fc.assert(
    fc.property(
      filling,
      fc.integer({ min: 90_000, max: 100_000 }),
      starts,
      chunk,
      (filling, n, starts, size) => {
        const body = Buffer.alloc(n, filling)
        for (const at of starts) body.write('\r\n------b0undarX', Math.min(at, n - 16), 'latin1')
        if (Buffer.concat([body, Buffer.from('\r\n')]).includes(`\r\n--${boundary}`)) return
        const bytes = write(boundary, [
          { head, body },
          { head, body: Buffer.from('more') },
        ])
        const [first, second] = scan(boundary, bytes, [size])
        t.ok(first?.body.equals(body) && second?.body.toString() === 'more')
      },
    ),
    { numRuns: 60 },
  )
})

t.test('any other bytes are a form or a refusal, in any division into chunks', async () => {
  const noise = fc.array(
    fc.oneof(
      fc.constantFrom(
        `--${boundary}`,
        `\r\n--${boundary}`,
        '--',
        '\r\n',
        '\r\n\r\n',
        'Content-Disposition: form-data',
        ';',
        ':',
        ' ',
      ),
      fc.constantFrom('; name="file"', '; filename="x"', '; filename="', "; filename*=UTF-8''%ff", '\\"'),
      fc.string({ maxLength: 10 }),
    ),
    { maxLength: 30 },
  )
  const outcome = (body: Buffer, sizes: number[]) => {
    try {
      return JSON.stringify(scan(boundary, body, sizes))
    } catch (error) {
      return (error as { status?: string }).status ?? `thrown: ${error}`
    }
  }
  fc.assert(
    fc.property(noise, fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }), (pieces, sizes) => {
      const body = Buffer.from(pieces.join(''))
      const whole = outcome(body, [body.length || 1])
      return !whole.startsWith('thrown') && whole === outcome(body, sizes)
    }),
    { numRuns: 2_000 },
  )
})

t.test('a malformed form is refused', async (t) => {
  const field = 'Content-Disposition: form-data; name="a"'
  const refused = (body: string | Buffer, why: string) =>
    t.throws(() => scan(boundary, Buffer.from(body)), new RefusalError('error-body'), why)
  for (const type of [
    undefined,
    '',
    'multipart/form-data',
    'multipart/form-data; boundary=',
    'text/plain; boundary=x',
  ]) {
    t.throws(() => new FormScanner(type), new RefusalError('error-body'), String(type))
  }
  refused('', 'nothing')
  refused(`--${boundary}`, 'no more than a boundary')
  refused(`--${boundary}\r\n${field}\r\n\r\nvalue`, 'a value without an end')
  refused(`--${boundary}\r\n${field}\r\n\r\nvalue\r\n--${boundary}`, 'an end without an end')
  refused(`--${boundary}x\r\n${field}\r\n\r\nvalue\r\n--${boundary}--`, 'something behind the boundary')
  refused(`--${boundary}\r\nno colon\r\n\r\nvalue\r\n--${boundary}--`, 'a header without a colon')
  refused(`--${boundary}\r\n${'a: b\r\n'.repeat(40)}\r\nv\r\n--${boundary}--`, 'many headers')
  refused(`${'x'.repeat(100_000)}\r\n--${boundary}--`, 'a long preamble')
  refused(`--${boundary}--${'x'.repeat(100_000)}`, 'a long epilogue')
  const part = { head: field, body: Buffer.from('v') }
  const withHead = (bytes: number) => ({ head: `${field}; x=${'y'.repeat(bytes)}`, body: part.body })
  for (const [parts, why] of [
    [[withHead(20_000)], 'a huge header'],
    [new Array(9).fill(withHead(8_000)), 'many large headers'],
  ] as const) {
    for (const size of [100_000, 1_000, 1])
      t.throws(
        () => scan(boundary, write(boundary, [...parts]), [size]),
        new RefusalError('error-headerSize'),
        why,
      )
  }
  t.equal(scan(boundary, write(boundary, new Array(7).fill(withHead(8_000)))).length, 7)
  t.equal(scan(boundary, write(boundary, new Array(100).fill(part))).length, 100)
  refused(write(boundary, new Array(101).fill(part)), 'too many parts')
  t.same(scan(boundary, Buffer.from(`--${boundary}--`)), [], 'no parts at all')
  t.same(
    scan(
      boundary,
      Buffer.from(`preamble\r\n--${boundary} \t\r\n${field}\r\n\r\n\r\n--${boundary}--\r\nepilogue`),
    ),
    [{ name: 'a', fileName: undefined, type: undefined, body: Buffer.alloc(0) }],
    'preamble, padding and epilogue are ignored',
  )
  const [folded] = scan(
    boundary,
    write(boundary, [{ head: 'content-disposition:form-data;\r\n name="f"', body: part.body }]),
  )
  t.equal(folded?.name, 'f', 'folded headers')
})

t.test('file names arrive as their clients wrote them', async (t) => {
  const nameIn = (rest: string) => parseDisposition(`form-data; name="file"; ${rest}`).fileName
  t.equal(nameIn('filename="plain.txt"'), 'plain.txt')
  t.equal(nameIn('filename=token.txt'), 'token.txt')
  t.equal(nameIn('filename=two words.txt'), 'two words.txt')
  t.equal(nameIn('filename="größe 日本語 😀.txt"'), 'größe 日本語 😀.txt')
  t.equal(nameIn('filename="a \\"quoted\\" \\\\ name.txt"'), 'a "quoted" \\ name.txt', 'curl and Go')
  t.equal(nameIn('filename="C:\\dir\\file.txt"'), 'C:\\dir\\file.txt', 'an old browser')
  t.equal(
    nameIn('filename="a %22b%22%0d%0A.txt"'),
    'a "b"\r\n.txt',
    'browsers and curl: quotes and line ends',
  )
  t.equal(
    nameIn('filename="100%2520%2522%20%zz%.txt"'),
    '100%2520%2522%20%zz%.txt',
    'other percent signs stay',
  )
  t.equal(nameIn('filename=a%22b.txt'), 'a"b.txt')
  t.equal(nameIn(`filename*=UTF-8''a%2522b.txt`), 'a%22b.txt', 'an extended name is decoded once')
  t.equal(parseDisposition('form-data; name="a%22"').name, 'a%22', 'only file names are read so')
  t.equal(nameIn('filename="semi;colon.txt"; x=y'), 'semi;colon.txt')
  t.equal(nameIn('filename=""'), '')
  t.equal(nameIn(`filename*=UTF-8''%e2%82%ac.txt`), '€.txt')
  t.equal(nameIn(`filename="EUR.txt"; filename*=utf-8'en'%e2%82%ac.txt`), '€.txt')
  t.equal(nameIn(`filename*=UTF-8''%e2%82%ac.txt; filename="EUR.txt"`), '€.txt')
  t.equal(nameIn(`filename*=iso-8859-1''gr%f6%dfe.txt`), 'größe.txt')
  t.equal(nameIn(`filename="x"; filename*=koi8-r''%c1`), 'x', 'unknown character sets fall back')
  t.equal(nameIn(`filename="x"; filename*=broken`), 'x')
  t.equal(nameIn('other="filename=x"'), undefined)
  t.same(parseDisposition('attachment; name="file"'), { name: undefined, fileName: undefined })
  t.same(parseDisposition(undefined), { name: undefined, fileName: undefined })
  const head = 'Content-Disposition: form-data; name="file"; filename="gr\xf6\xdfe"'
  const latin = Buffer.from(`--${boundary}\r\n${head}\r\n\r\n\r\n--${boundary}--`, 'latin1')
  t.equal(scan(boundary, latin)[0]?.fileName, 'größe', 'bytes that are no UTF-8')
})

t.test('the type is the stated one, or derived from the name', async (t) => {
  t.equal(fileType('image/PNG', 'x.txt'), 'image/png')
  t.equal(fileType('text/plain; charset=koi8-r', 'x'), 'text/plain')
  t.equal(fileType('application/octet-stream', 'x.mp4'), 'video/mp4')
  t.equal(fileType(undefined, 'x.PDF'), 'application/pdf')
  t.equal(fileType(undefined, 'png'), 'application/octet-stream')
  t.equal(fileType('bad', 'x'), 'application/octet-stream')
  t.equal(fileType('a/b\u0000c', 'x.zip'), 'application/zip')
  t.equal(fileType(`a/${'b'.repeat(100)}`, 'x'), 'application/octet-stream')
})

t.test('a client that trickles is cut off, one that waits for the service is not', async (t) => {
  const outcomes: string[] = []
  const pace = { ...slowestUploadPace, progressBytes: 100, progressMs: 150, lookEveryMs: 10 }
  const server = createServer(
    { IncomingMessage: PiecewiseRequest },
    (request, response) => void take(request, response),
  )
  async function take(request: PiecewiseRequest, response: ServerResponse): Promise<void> {
    try {
      for await (const _ of requestBytes(request, pace)) if (request.url === '/held') await delay(300)
      outcomes.push('whole')
      response.end()
    } catch (error) {
      outcomes.push((error as Error).message)
    }
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.resume()
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n')
  for (let sent = 0; sent < 100 && !socket.destroyed; sent++) {
    socket.write('x')
    await delay(20)
  }
  await closed
  const held = fetch(`http://127.0.0.1:${port}/held`, { method: 'POST', body: 'x'.repeat(200) })
  t.equal((await held).status, 200)
  t.same(outcomes, ['the client sends too slowly', 'whole'])
})

t.test('processed parts of a large body take no memory', async (t) => {
  const body = randomBytes(4 * 1024 * 1024)
  const gone: boolean[] = []
  const server = createServer(
    { IncomingMessage: PiecewiseRequest },
    (request, response) => void take(request, response),
  )
  async function take(request: PiecewiseRequest, response: ServerResponse): Promise<void> {
    const digest = createHash('md5')
    let before: Buffer | undefined
    for await (const chunk of requestBytes(request)) {
      if (before !== undefined) gone.push(before.length === 0)
      before = chunk.length >= 16 * 1024 ? chunk : undefined
      if (gone.length % 3 === 0) await delay(1) // chunks wait then
      digest.update(chunk)
    }
    if (before !== undefined) gone.push(before.length === 0)
    response.end(digest.digest('hex'))
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const answer = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body })
  t.equal(await answer.text(), createHash('md5').update(body).digest('hex'))
  t.ok(gone.length > 10, `${gone.length} large chunks`)
  t.ok(gone.every(Boolean), 'each was released when the next was requested')
})

t.test('a plain head is parsed like any other, and so is one that only looks plain', async (t) => {
  const characters = [
    'a',
    'file.bin',
    ' ',
    '%22',
    "'",
    ';',
    '=',
    '/',
    '[',
    ']',
    '~',
    '"',
    '\\',
    '\t',
    '\r\n ',
    'é',
    '\x7f',
  ]
  const text = fc.array(fc.constantFrom(...characters), { maxLength: 5 }).map((some) => some.join(''))
  const name = fc.oneof(fc.constantFrom('file', 'folderId', ''), text)
  const type = fc.oneof(fc.constantFrom('text/plain', 'text/plain; charset=utf-8', 'Text/X ', ''), text)
  const mostly = (usual: string, ...others: string[]) =>
    fc.oneof(
      { weight: 6, arbitrary: fc.constant(usual) },
      { weight: 1, arbitrary: fc.constantFrom(...others) },
    )
  const heads = fc.tuple(
    mostly('Content-Disposition: form-data;', 'content-disposition: form-data; ', 'X: form-data;'),
    name.map((it) => ` name="${it}"`),
    fc.option(text, { nil: undefined }).map((it) => (it === undefined ? '' : `; filename="${it}"`)),
    mostly('', "; filename*=UTF-8''x", ' ', ';'),
    fc.option(type, { nil: undefined }).map((it) => (it === undefined ? '' : `\r\nContent-Type: ${it}`)),
    mostly('', '\r\nContent-Length: 4'),
  )
  const read = (how: (block: Buffer) => unknown, head: string) => {
    try {
      return how(Buffer.from(`${head}\r\n\r\n`))
    } catch (error) {
      return (error as RefusalError).status
    }
  }
  fc.assert(
    fc.property(heads, (pieces) => {
      const head = pieces.join('')
      t.strictSame(read(partHead, head), read(anyPartHead, head), head)
    }),
    { numRuns: 2_000 },
  )
})

t.test('the time to read a form grows with its length, for any content', async (t) => {
  const head = (text: string) => Buffer.from(`${text}\r\n\r\n`)
  const inDisposition = (text: string) => head(`Content-Disposition: form-data; name="file"${text}`)
  const heads: Record<string, (n: number) => Buffer> = {
    'blanks in a value': (n) => head(`a: b${' '.repeat(n)}b`),
    'blanks and tabs before a colon': (n) => head(`a${' \t'.repeat(n / 2)}b`),
    'a name without a colon': (n) => head('a'.repeat(n)),
    colons: (n) => head(`a:${': '.repeat(n / 2)}`),
    'folded lines': (n) => head(`a: b${'\r\n '.repeat(n / 3)}`),
    'lines of blanks': (n) => head(`a: b${'\r\n'.repeat(n / 2)}`),
    'backslashes in a name': (n) => inDisposition(`; filename="${'\\'.repeat(n)}`),
    'quotes that do not close': (n) => inDisposition(`; filename="\\"`.repeat(n / 13)),
    semicolons: (n) => inDisposition(';'.repeat(n)),
    'semicolons and blanks': (n) => inDisposition('; '.repeat(n / 2)),
    'parameters without a value': (n) => inDisposition('; a'.repeat(n / 3)),
    'many parameters': (n) => inDisposition('; a=b'.repeat(n / 5)),
    'blanks around equals signs': (n) => inDisposition(`;${' '.repeat(n / 2)}=${' '.repeat(n / 2)}`),
    'percent signs': (n) => inDisposition(`; filename="${'%2'.repeat(n / 2)}"`),
    'an extended name': (n) => inDisposition(`; filename*=utf-8''${'%'.repeat(n)}`),
    'apostrophes in an extended name': (n) => inDisposition(`; filename*=${"a'".repeat(n / 2)}`),
  }
  for (const [what, make] of Object.entries(heads)) {
    const { linear, growth } = growsLinearly(make, partHead)
    t.ok(linear, `${what}: ${growth.toFixed(1)} times for 8 times the bytes`)
  }
  const types: Record<string, (n: number) => string> = {
    blanks: (n) => `multipart/form-data${' '.repeat(n)}`,
    'semicolons and blanks': (n) => `multipart/form-data${'; '.repeat(n / 2)}`,
    'boundaries without a value': (n) => `multipart/form-data${';boundary'.repeat(n / 9)}`,
    'boundaries with blanks': (n) => `multipart/form-data${';boundary ='.repeat(n / 11)}${' '.repeat(n)}`,
    'boundaries that do not close': (n) => `multipart/form-data${';boundary="\\'.repeat(n / 12)}`,
  }
  for (const [what, make] of Object.entries(types)) {
    const { linear, growth } = growsLinearly(make, (type) => new FormScanner(type))
    t.ok(linear, `a boundary among ${what}: ${growth.toFixed(1)} times`)
  }
  const scanIn = (size: number) => (body: Buffer) => scan(boundary, body, [size])
  const field = 'Content-Disposition: form-data; name="a"'
  const bodies: Record<string, [make: (n: number) => Buffer, pieceBytes: number]> = {
    'one head, byte by byte': [
      (n) => write(boundary, [{ head: `x: ${'y'.repeat(n)}`, body: Buffer.alloc(1) }]),
      1,
    ],
    'line ends in a head, byte by byte': [
      (n) => Buffer.from(`--${boundary}\r\n${'x: y\r\n'.repeat(n / 6)}`),
      1,
    ],
    'carriage returns': [(n) => write(boundary, [{ head: field, body: Buffer.alloc(n, '\r') }]), 100],
    'what begins a delimiter': [
      (n) => write(boundary, [{ head: field, body: Buffer.from('\r\n--'.repeat(n / 4)) }]),
      64 * 1024,
    ],
    'a delimiter but for its end': [
      (n) =>
        write(boundary, [
          { head: field, body: Buffer.from(`\r\n--${boundary.slice(0, -1)}`.repeat(n / 14)) },
        ]),
      64 * 1024,
    ],
  }
  for (const [what, [make, pieceBytes]] of Object.entries(bodies)) {
    const { linear, growth } = growsLinearly(make, scanIn(pieceBytes))
    t.ok(linear, `${what}: ${growth.toFixed(1)} times`)
  }
})

t.test('a file of carriage returns costs the same with a boundary of any length', async (t) => {
  const head = 'Content-Disposition: form-data; name="a"'
  const make = (length: number) => {
    const long = '-'.repeat(length)
    return { long, body: write(long, [{ head, body: Buffer.alloc(32 * 1024, '\r') }]) }
  }
  // By length alone, every carriage return at the end of a piece could begin the delimiter.
  const { growth } = growsLinearly(make, ({ long, body }) => scan(long, body, [256]), 24)
  t.ok(growth < 3, `${growth.toFixed(1)} times for a boundary of 8 times the length`)
})

t.test('a chunk that is full of starts of delimiters costs about what any other does', async (t) => {
  const delimiter = `\r\n--${boundary}`
  const fastest = (work: () => void) => {
    const times = Array.from({ length: 60 }, () => {
      const began = performance.now()
      work()
      return performance.now() - began
    })
    return Math.min(...times.slice(30))
  }
  const fillings = ['\r', '\r\n', '\r\n-', '\r\n--', delimiter.slice(0, -1), '\raaaaaaa', 'a,b,c\r\n']
  const bodies = fillings.map((filling) => Buffer.from(filling.repeat((64 * 1024) / filling.length)))
  const native = Math.max(...bodies.map((body) => fastest(() => body.indexOf(delimiter))))
  for (const [index, body] of bodies.entries()) {
    const scanner = new FormScanner(`multipart/form-data; boundary="${boundary}"`, memory)
    scanner.feed(Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="file"\r\n\r\n`))
    while (scanner.next() !== undefined);
    const time = fastest(() => {
      scanner.feed(body)
      while (scanner.next() !== undefined);
    })
    t.ok(time < 2 * native, `${JSON.stringify(fillings[index])}: ${(time / native).toFixed(1)} times`)
  }
})

t.test('a form of many parts asks for pauses', async (t) => {
  const parts = new Array(40).fill({
    head: 'Content-Disposition: form-data; name="a"',
    body: Buffer.alloc(1),
  })
  const scanner = new FormScanner(`multipart/form-data; boundary="${boundary}"`)
  scanner.feed(write(boundary, parts))
  const pauses: number[] = []
  let heads = 0
  for (let event = scanner.next(); event !== undefined; event = scanner.next()) {
    if (event.kind !== 'part') continue
    heads++
    if (scanner.needsPause) pauses.push(heads)
  }
  t.same(pauses, [16, 32])
})
