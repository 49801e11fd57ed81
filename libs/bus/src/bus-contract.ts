/** What every bus must do, as a suite that depends on no test runner. */

import assert from 'node:assert/strict'
import { hex } from '@holdfast/kernel'
import { type Bus, maxMessageBytes } from './bus.ts'
import type { BusFaultCode } from './errors.ts'

export interface BusContract<T> {
  test: (name: string, body: (t: T) => Promise<void>) => unknown
  /**
   * Participants of one bus, as in different processes; the test's teardown closes those still
   * open.
   */
  open: (t: T) => Promise<{ server: Bus; client: Bus }>
  /**
   * Resolves when everything that `server` serves and subscribes to is known to `client`. Default:
   * at once.
   */
  settled?: (buses: { server: Bus; client: Bus }) => Promise<void>
  /**
   * Timeout of requests that are answered; long enough that only a broken bus reaches it. Default
   * 10 s.
   */
  patientMs?: number
}

/** The timeout that tests of timeouts wait for. */
const shortMs = 50

/** Each test uses fresh subjects, so that the suite also runs on a shared bus. */
const fresh = () => `suite.${crypto.randomUUID()}`

const echo = async (message: Uint8Array) => message

export function busContract<T>(contract: BusContract<T>): void {
  const waits = { settled: async () => {}, patientMs: 10_000, ...contract }
  testRequests(waits)
  testFaults(waits)
  testShares(waits)
  testClose(waits)
}

function testRequests<T>({ test, open, settled, patientMs }: Required<BusContract<T>>): void {
  test('a request is answered by the server of its subject, also within one participant', async (t) => {
    const { server, client } = await open(t)
    const [subject, other] = [fresh(), fresh()]
    server.serve(subject, async (message) => bytes(`one: ${text(message)}`))
    server.serve(other, async (message) => bytes(`two: ${text(message)}`))
    await settled({ server, client })
    assert.equal(text(await client.request(subject, bytes('a'), { timeoutMs: patientMs })), 'one: a')
    assert.equal(text(await server.request(other, bytes('b'), { timeoutMs: patientMs })), 'two: b')
    assert.equal(text(await client.request(subject, bytes(''), { timeoutMs: patientMs })), 'one: ')
  })

  test("any bytes arrive, including none, and neither side can change the other's copy", async (t) => {
    const { server, client } = await open(t)
    const subject = fresh()
    const answer = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
    const received: string[] = []
    server.serve(subject, async (message) => {
      received.push(hex(message))
      message.fill(0)
      return message.length === 0 ? new Uint8Array() : answer
    })
    await settled({ server, client })
    const sent = Buffer.from(answer)
    const asking = begun(client.request(subject, sent, { timeoutMs: patientMs }))
    sent.fill(7)
    const got = await asking
    assert.deepEqual(Buffer.from(got), Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)))
    got.fill(0)
    assert.equal(answer[255], 255)
    assert.deepEqual(received, [hex(answer)])
    assert.equal((await client.request(subject, Buffer.alloc(0), { timeoutMs: patientMs })).length, 0)
  })

  test('concurrent requests each get their own answer, in any order of arrival', async (t) => {
    const { server, client } = await open(t)
    const subject = fresh()
    const waiting: (() => void)[] = []
    server.serve(subject, async (message) => {
      await new Promise<void>((resolve) => waiting.push(resolve) === 50 && answerAll(waiting.reverse()))
      return message
    })
    await settled({ server, client })
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, at) =>
        client.request(subject, bytes(`${at}`), { timeoutMs: patientMs }),
      ),
    )
    assert.deepEqual(
      answers.map(text),
      Array.from({ length: 50 }, (_, at) => `${at}`),
    )
  })

  test('a handler never runs on the stack of its caller', async (t) => {
    const { server, client } = await open(t)
    const [asked, reported] = [fresh(), fresh()]
    const seen: string[] = []
    const heard = Promise.withResolvers<void>()
    server.serve(asked, async (message) => {
      seen.push('handler')
      return message
    })
    server.subscribe(reported, () => {
      seen.push('subscriber')
      heard.resolve()
    })
    await settled({ server, client })
    const asking = begun(client.request(asked, bytes(''), { timeoutMs: patientMs }))
    client.publish(reported, bytes(''))
    seen.push('caller')
    await Promise.all([asking, heard.promise])
    assert.equal(seen[0], 'caller')
  })
}

function testFaults<T>({ test, open, settled, patientMs }: Required<BusContract<T>>): void {
  test('a subject without a server, or whose server closed, fails at once', async (t) => {
    const { server, client } = await open(t)
    const subject = fresh()
    server.subscribe(subject, () => {})
    await settled({ server, client })
    await assertRefused(client.request(subject, bytes(''), { timeoutMs: patientMs }), 'NO_RESPONDERS')
    const serving = server.serve(subject, echo)
    await settled({ server, client })
    await client.request(subject, bytes(''), { timeoutMs: patientMs })
    serving.close()
    serving.close()
    await settled({ server, client })
    await assertRefused(client.request(subject, bytes(''), { timeoutMs: patientMs }), 'NO_RESPONDERS')
  })

  test('no answer in time is a timeout, and the late answer is dropped', async (t) => {
    const { server, client } = await open(t)
    const subject = fresh()
    const late = Promise.withResolvers<Uint8Array>()
    let calls = 0
    server.serve(subject, (message) => (calls++ === 0 ? late.promise : echo(message)))
    await settled({ server, client })
    await assertRefused(client.request(subject, bytes('first'), { timeoutMs: shortMs }), 'TIMEOUT')
    late.resolve(bytes('late'))
    assert.equal(text(await client.request(subject, bytes('second'), { timeoutMs: patientMs })), 'second')
  })

  test('a handler that fails leaves its request without an answer, and continues to serve', async (t) => {
    const { server, client } = await open(t)
    const subject = fresh()
    server.serve(subject, async (message) => {
      if (text(message) === 'bad') throw new Error('planted')
      return message
    })
    server.serve(`${subject}.sync`, () => {
      throw new Error('planted')
    })
    await settled({ server, client })
    await assertRefused(client.request(subject, bytes('bad'), { timeoutMs: shortMs }), 'TIMEOUT')
    await assertRefused(client.request(`${subject}.sync`, bytes(''), { timeoutMs: shortMs }), 'TIMEOUT')
    assert.equal(text(await client.request(subject, bytes('good'), { timeoutMs: patientMs })), 'good')
  })

  test('the largest message is taken, a larger one is refused before anything is sent', async (t) => {
    const { server, client } = await open(t)
    const subject = fresh()
    const lengths: number[] = []
    server.serve(subject, async (message) => {
      lengths.push(message.length)
      return bytes('')
    })
    await settled({ server, client })
    const large = Buffer.alloc(maxMessageBytes + 1)
    await assertRefused(client.request(subject, large, { timeoutMs: patientMs }), 'TOO_LARGE')
    await assertRefused(client.request(fresh(), large, { timeoutMs: patientMs }), 'TOO_LARGE')
    assert.throws(() => client.publish(subject, large), { code: 'TOO_LARGE' })
    await client.request(subject, large.subarray(1), { timeoutMs: patientMs })
    assert.deepEqual(lengths, [maxMessageBytes])
  })

  test('answers of any length arrive joined', async (t) => {
    const { server, client } = await open(t)
    const subject = fresh()
    server.serve(subject, async (message) => patternOf(Number(text(message))))
    await settled({ server, client })
    const lengths = [-5, -4, -3, 0, 1].map((more) => maxMessageBytes + more)
    for (const length of [...lengths, 2 * maxMessageBytes - 8, 2 * maxMessageBytes, 5_000_000]) {
      const answer = await client.request(subject, bytes(`${length}`), { timeoutMs: patientMs })
      assert.ok(patternOf(length).equals(answer), `${length} bytes`)
    }
  })

  test('a signal ends the wait, before and during the request', async (t) => {
    const { server, client } = await open(t)
    const subject = fresh()
    const never = Promise.withResolvers<Uint8Array>()
    const arrived = Promise.withResolvers<void>()
    let calls = 0
    server.serve(subject, () => {
      calls++
      arrived.resolve()
      return never.promise
    })
    await settled({ server, client })
    const signal = AbortSignal.abort()
    await assertRefused(client.request(subject, bytes(''), { timeoutMs: patientMs, signal }), 'CANCELLED')
    assert.equal(calls, 0)
    const controller = new AbortController()
    const asking = begun(
      client.request(subject, bytes(''), { timeoutMs: patientMs, signal: controller.signal }),
    )
    await arrived.promise
    controller.abort()
    await assertRefused(asking, 'CANCELLED')
    never.resolve(bytes(''))
  })
}

function testShares<T>({ test, open, settled, patientMs }: Required<BusContract<T>>): void {
  test('several servers of one subject share its requests, one each', async (t) => {
    const { server, client } = await open(t)
    const subject = fresh()
    const counts = [0, 0]
    const servings = counts.map((_, at) =>
      [server, client][at]?.serve(subject, async () => {
        counts[at] = (counts[at] ?? 0) + 1
        return bytes('')
      }),
    )
    await settled({ server, client })
    for (let call = 0; call < 20; call++) await client.request(subject, bytes(''), { timeoutMs: patientMs })
    assert.equal((counts[0] ?? 0) + (counts[1] ?? 0), 20)
    const before = counts[1] ?? 0
    servings[0]?.close()
    await settled({ server, client })
    for (let call = 0; call < 5; call++) await client.request(subject, bytes(''), { timeoutMs: patientMs })
    assert.equal(counts[1], before + 5)
  })

  test('published messages reach all subscribers in order, and nothing else', async (t) => {
    const { server, client } = await open(t)
    const [subject, other] = [fresh(), fresh()]
    const heard: string[][] = [[], [], []]
    const all = Array.from({ length: 20 }, (_, at) => `${at}`)
    const done = [server, client].map(
      (bus, at) =>
        new Promise<void>((resolve) => {
          bus.subscribe(subject, (message) => {
            heard[at]?.push(text(message))
            message.fill(0)
            if (heard[at]?.length === all.length) resolve()
          })
        }),
    )
    server.subscribe(other, (message) => heard[2]?.push(text(message)))
    await settled({ server, client })
    for (const one of all) client.publish(subject, bytes(one))
    client.publish(fresh(), bytes('unheard'))
    await Promise.all(done)
    assert.deepEqual(heard, [all, all, []])
  })

  test('a subscription that ends in .> hears what is below it, and nothing else', async (t) => {
    const { server, client } = await open(t)
    const [subject, last] = [fresh(), fresh()]
    const heard: string[] = []
    server.subscribe(`${subject}.>`, (message) => heard.push(text(message)))
    const ended = new Promise<void>((resolve) => server.subscribe(last, () => resolve()))
    await settled({ server, client })
    for (const below of ['.one', '.one.two', '', 'r.one']) client.publish(`${subject}${below}`, bytes(below))
    client.publish(last, bytes(''))
    await ended
    assert.deepEqual(heard, ['.one', '.one.two'])
  })

  test('a failing subscriber does not affect others, a closed one receives nothing more', async (t) => {
    const { server, client } = await open(t)
    const subject = fresh()
    const heard: string[] = []
    server.subscribe(subject, () => {
      throw new Error('planted')
    })
    const closed = server.subscribe(subject, (message) => heard.push(`closed ${text(message)}`))
    const second = new Promise<void>((resolve) => {
      server.subscribe(subject, (message) => {
        heard.push(text(message))
        if (text(message) === 'second') resolve()
      })
    })
    await settled({ server, client })
    closed.close()
    client.publish(subject, bytes('first'))
    client.publish(subject, bytes('second'))
    await second
    assert.deepEqual(heard, ['first', 'second'])
  })
}

function testClose<T>({ test, open, settled, patientMs }: Required<BusContract<T>>): void {
  test('close stops serving, lets running requests end, and refuses later ones', async (t) => {
    const { server, client } = await open(t)
    const subject = fresh()
    const arrived = Promise.withResolvers<void>()
    const answer = Promise.withResolvers<Uint8Array>()
    server.serve(subject, () => {
      arrived.resolve()
      return answer.promise
    })
    await settled({ server, client })
    const asking = begun(client.request(subject, bytes(''), { timeoutMs: patientMs }))
    await arrived.promise
    let closed = false
    const closing = server.close().then(() => {
      closed = true
    })
    await settled({ server, client })
    await assertRefused(client.request(subject, bytes(''), { timeoutMs: patientMs }), 'NO_RESPONDERS')
    assert.equal(closed, false)
    answer.resolve(bytes('to the end'))
    assert.equal(text(await asking), 'to the end')
    await closing
    await server.close()
    await assertRefused(server.request(subject, bytes(''), { timeoutMs: patientMs }), 'CLOSED')
    assert.throws(() => server.serve(subject, echo), { code: 'CLOSED' })
    assert.throws(() => server.subscribe(subject, () => {}), { code: 'CLOSED' })
    server.publish(subject, bytes('dropped'))
  })

  test('close waits for the requests this participant sent', async (t) => {
    const { server, client } = await open(t)
    const subject = fresh()
    const answer = Promise.withResolvers<Uint8Array>()
    server.serve(subject, () => answer.promise)
    await settled({ server, client })
    const order: string[] = []
    const asking = begun(client.request(subject, bytes(''), { timeoutMs: patientMs }))
    const both = [asking.then(() => order.push('answer')), client.close().then(() => order.push('closed'))]
    answer.resolve(bytes(''))
    await Promise.all(both)
    assert.deepEqual(order, ['answer', 'closed'])
  })
}

/** A request that is awaited later, or never when the test has already failed. */
function begun<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {})
  return work
}

function answerAll(waiting: (() => void)[]): void {
  for (const resolve of waiting) resolve()
}

/** Bytes that differ by position, so that a misplaced part is visible. */
function patternOf(length: number): Buffer {
  const pattern = Buffer.alloc(length)
  for (let at = 0; at + 4 <= length; at += 4_093) pattern.writeUInt32BE(at, at)
  return pattern
}

async function assertRefused(work: Promise<unknown>, code: BusFaultCode): Promise<void> {
  await assert.rejects(work, (fault: { code?: string }) => {
    assert.equal(fault.code, code)
    return true
  })
}

function bytes(of: string): Buffer {
  return Buffer.from(of)
}

function text(of: Uint8Array): string {
  return Buffer.from(of).toString()
}
