/** What is traced is decided once, by the process that gets the request of a client. */
import { traceparentOf } from '@holdfast/kernel'
import t, { type Test } from 'tap'
import { otlpReceiver } from '../../../test/support/otlp-receiver.ts'
import { openTracing } from '../src/index.ts'

async function tracingOneIn(t: Test, oneIn: number) {
  const receiver = await otlpReceiver(t)
  const opened = new AsyncDisposableStack()
  const tracer = await openTracing({
    config: { collector: receiver.url, oneIn },
    process: { name: 'one', role: 'api', region: 'eu-par', version: '1.0.0' },
    opened,
    log: { warn: (_, message) => t.fail(message) },
  })
  if (tracer === undefined) throw new Error('nothing is traced')
  const begin = (parent: string | undefined, fromClient: boolean) => {
    const span = tracer.begin('request', { parent, fromClient, attributes: {} })
    span?.end()
    return span
  }
  return { begin, end: () => opened.disposeAsync(), received: receiver.spans }
}

/** Of the trace with this number, which its client wants to be traced. */
const parentOf = (number: number) => `00-${number.toString(16).padStart(32, '0')}-00000000000000ab-01`

t.test('the ids of traces do not determine which requests of clients are traced', async (t) => {
  const { begin, end, received } = await tracingOneIn(t, 4)
  const numbers = Array.from({ length: 400 }, (_, at) => at + 1)
  const chosen = numbers.filter((number) => begin(parentOf(number), true) !== undefined)
  // Expected: 100, with a deviation of 9.
  t.ok(chosen.length > 30 && chosen.length < 170, `${chosen.length} of 400`)
  const again = Array.from({ length: 400 }, () => begin(parentOf(1), true)).filter(Boolean)
  t.ok(again.length > 30 && again.length < 170, `${again.length} of 400 with one id`)
  const own = Array.from({ length: 400 }, () => begin(undefined, true)).filter(Boolean)
  t.ok(own.length > 30 && own.length < 170, `${own.length} of 400 without one`)
  await end()
  t.equal(received.length, chosen.length + again.length + own.length)
})

t.test('what another process traces is traced here, too, and what it does not trace is not', async (t) => {
  const { begin, end, received } = await tracingOneIn(t, 1_000_000)
  const high = `00-${'f'.repeat(32)}-00000000000000ab-01`
  t.match(traceparentOf(begin(high, false)?.traceparent), /^00-f{32}-(?!00000000000000ab)[\da-f]{16}-01$/)
  t.equal(begin(high.replace(/01$/, '00'), false), undefined)
  await end()
  t.match(received, [{ traceId: 'f'.repeat(32), parentSpanId: '00000000000000ab' }])
})

t.test('a client can decide against its trace', async (t) => {
  const { begin, end, received } = await tracingOneIn(t, 1)
  t.equal(begin(parentOf(1).replace(/01$/, '00'), true), undefined)
  t.not(begin(parentOf(1), true), undefined)
  await end()
  t.equal(received.length, 1)
})
