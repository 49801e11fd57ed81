import { setImmediate } from 'node:timers/promises'
import { AnswerBudget, createHttpHost, createRateLimits, ownParts } from '@holdfast/http-kit'
import { plainBudget } from '@holdfast/http-kit/testing'
import { systemClock } from '@holdfast/kernel'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { type Representation, serveRepresentation } from '../src/bytes/representation.ts'

const readers = 40
/** How long a first piece takes to make. */
const pieceMs = 3

t.test('answers that waited for the same begin in turns of the loop', async (t) => {
  let begun = 0
  const representation: Representation = {
    size: 3,
    etag: '"a"',
    modifiedSeconds: undefined,
    validators: { etag: '"a"' },
    headers: { 'content-type': 'application/zip' },
    ignoresRange: false,
    async *read() {
      begun++
      const endsMs = performance.now() + pieceMs
      while (performance.now() < endsMs);
      yield Buffer.from('zip')
    },
  }
  const observer = { answers: new AnswerBudget(plainBudget), begun: () => {}, sent: () => {} }
  const { promise: laidOut, resolve } = Promise.withResolvers<void>()
  let waiting = 0
  const app = createHttpHost({
    ...ownParts,
    isBanned: undefined,
    name: 'download',
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
    trustProxy: false,
    cors: true,
    rateLimits: createRateLimits({ mode: 'off', clock: systemClock }),
  })
  app.get('/', async (request, reply) => {
    waiting++
    await laidOut
    return serveRepresentation(request, reply, representation, observer)
  })
  t.teardown(() => app.close())
  const address = await app.listen()
  const answers = Promise.all(Array.from({ length: readers }, () => fetch(address)))
  await until(async () => waiting === readers)
  resolve()
  await setImmediate()
  t.ok(begun <= 5, `${begun} in the first turn`)
  const texts = await Promise.all((await answers).map((answer) => answer.text()))
  t.strictSame(new Set(texts), new Set(['zip']))
  t.equal(begun, readers)
})
