import fc from 'fast-check'
import t from 'tap'
import { type Bus, BusFault, MemoryBus, maxMessageBytes, ReplyJoiner, splitReply } from '../src/index.ts'
import { requestsInFlightMax } from '../src/memory-bus.ts'
import { maxReplyBytes } from '../src/parts.ts'
import { busContract } from '../src/testing.ts'

t.test('the bus within a process', async (t) => {
  busContract({
    test: t.test,
    open: async () => {
      const server = new MemoryBus()
      return { server, client: server.connect() }
    },
  })
})

t.test("a handler's error is reported to its own participant alone", async (t) => {
  const topic: unknown[] = []
  const server = new MemoryBus({
    onHandlerError: ({ subject, error }) => topic.push([subject, String(error)]),
  })
  const client = server.connect({ onHandlerError: () => t.fail('not ours') })
  server.serve('asked', () => Promise.reject(new Error('planted')))
  server.serve('large', async () => Buffer.alloc(maxReplyBytes + 1))
  server.subscribe('topic', () => {
    throw new Error('planted')
  })
  client.publish('topic', Buffer.alloc(0))
  await t.rejects(client.request('asked', Buffer.alloc(0), { timeoutMs: 1 }), { code: 'TIMEOUT' })
  await t.rejects(client.request('large', Buffer.alloc(0), { timeoutMs: 1 }), { code: 'TIMEOUT' })
  t.match(topic, [
    ['topic', 'Error: planted'],
    ['asked', 'Error: planted'],
    ['large', /^BusFault: a reply of/],
  ])
})

t.test('concurrent requests are bounded, and capacity is returned', async (t) => {
  const bus = new MemoryBus()
  const answers: ((answer: Uint8Array) => void)[] = []
  bus.serve('slow', () => new Promise((resolve) => answers.push(resolve)))
  const ask = () => bus.request('slow', Buffer.alloc(0), { timeoutMs: 10_000 })
  const asked = Array.from({ length: requestsInFlightMax }, ask)
  await t.rejects(ask(), { code: 'BUSY', category: 'unavailable' })
  answers.shift()?.(Buffer.alloc(0))
  await asked.shift()
  asked.push(ask())
  await Promise.resolve()
  for (const answer of answers) answer(Buffer.alloc(0))
  await Promise.all(asked)
})

t.test('a reply is whole in any order of its parts, with repeated and foreign ones between', async () => {
  const lengths = fc.integer({ min: 0, max: 3 * maxMessageBytes })
  const strange = [
    Buffer.alloc(0),
    Buffer.from([0, 0, 0]),
    Buffer.from([0, 9, 0, 1]),
    Buffer.from([0, 0, 0, 0]),
  ]
  fc.assert(
    fc.property(lengths, fc.infiniteStream(fc.nat()), (length, random) => {
      const reply = Buffer.alloc(length)
      for (let at = 0; at < length; at += 977) reply[at] = at % 251
      const parts = splitReply(reply)
      if (parts.some((part) => part.length > maxMessageBytes)) return false
      const joiner = new ReplyJoiner()
      const shuffled = parts
        .map((part) => ({ part, at: random.next().value ?? 0 }))
        .sort((one, two) => one.at - two.at)
        .map(({ part }) => part)
      const last = shuffled.pop() as Uint8Array
      const early = [...shuffled, ...shuffled, ...(shuffled.length > 0 ? strange : [])]
      if (early.some((part) => joiner.add(part) !== undefined)) return false
      return reply.equals(joiner.add(last) ?? Buffer.of(1))
    }),
    { numRuns: 40 },
  )
})

t.test('the format of a part does not change', async (t) => {
  t.same(splitReply(Buffer.from('ab')), [Buffer.from('000000016162', 'hex')])
  const [first, second] = splitReply(Buffer.alloc(maxMessageBytes, 0x61))
  t.equal(first?.length, maxMessageBytes)
  t.same(second, Buffer.from('0001000261616161', 'hex'))
  t.throws(() => splitReply(Buffer.alloc(maxReplyBytes + 1)), { code: 'TOO_LARGE' })
})

t.test('the suite finds every planted fault', async (t) => {
  t.same(await failures(() => ({})), [])
  for (const [fault, broken] of Object.entries(brokenBuses)) {
    const failed = await failures(broken)
    t.ok(failed.length > 0, `${fault}: ${failed.length} tests fail`)
  }
})

const brokenBuses: { [fault: string]: (sound: Bus) => Partial<Bus> } = {
  'memory is shared with the handler': (sound) => ({
    serve: (subject, handler) => sound.serve(subject, (message) => handler(message)),
    request: async (subject, message, options) => {
      const answer = await sound.request(subject, message, options)
      message.fill(0)
      return answer
    },
  }),
  'a message is copied too late': (sound) => ({
    request: async (subject, message, options) => {
      await Promise.resolve()
      return sound.request(subject, message, options)
    },
  }),
  'a missing responder is a time-out': (sound) => ({
    request: (subject, message, options) =>
      sound.request(subject, message, options).catch(renamed('NO_RESPONDERS', 'TIMEOUT')),
  }),
  'a time-out is an absence': (sound) => ({
    request: (subject, message, options) =>
      sound.request(subject, message, options).catch(renamed('TIMEOUT', 'NO_RESPONDERS')),
  }),
  'a failing handler fails its caller': (sound) => ({
    serve: (subject, handler) =>
      sound.serve(subject, async (message) => handler(message).catch(() => Buffer.alloc(0))),
  }),
  'large messages are cut': (sound) => ({
    request: (subject, message, options) =>
      sound.request(subject, message.subarray(0, maxMessageBytes), options),
  }),
  'answers are cut to one message': (sound) => ({
    request: async (subject, message, options) =>
      (await sound.request(subject, message, options)).subarray(0, maxMessageBytes),
  }),
  'a signal is not heard': (sound) => ({
    request: (subject, message, { timeoutMs }) =>
      sound.request(subject, message, { timeoutMs: Math.min(timeoutMs, 100) }),
  }),
  'a signal that was given before is not heard': (sound) => ({
    request: async (subject, message, options) => {
      if (options.signal?.aborted) sound.request(subject, message, { timeoutMs: 1 }).catch(() => {})
      return sound.request(subject, message, options)
    },
  }),
  'handlers run on the stack of the caller': (sound) => ({
    subscribe: (subject, handler) => {
      direct.set(subject, handler)
      return sound.subscribe(subject, () => {})
    },
    publish: (subject, message) => (direct.get(subject) ?? (() => {}))(message),
  }),
  'a closed server serves on': (sound) => ({
    serve: (subject, handler) => {
      sound.serve(subject, handler)
      return { close: () => {} }
    },
  }),
  'a closed subscriber hears on': (sound) => ({
    subscribe: (subject, handler) => {
      sound.subscribe(subject, handler)
      return { close: () => {} }
    },
  }),
  'published messages come in another order': (sound) => {
    let kept: (() => void) | undefined
    return {
      publish: (subject, message) => {
        const copy = Buffer.from(message)
        const late = kept
        kept = late === undefined ? () => sound.publish(subject, copy) : undefined
        if (late === undefined) return
        sound.publish(subject, copy)
        late()
      },
    }
  },
  'publish reaches one of those who listen': (sound) => ({
    publish: (subject, message) => {
      sound.request(subject, message, { timeoutMs: 1 }).catch(() => {})
    },
    subscribe: (subject, handler) =>
      sound.serve(subject, async (message) => {
        handler(message)
        return Buffer.alloc(0)
      }),
  }),
  'close does not wait': (sound) => ({
    close: async () => {
      void sound.close()
    },
  }),
  'close does nothing': () => ({ close: async () => {} }),
  'every server gets every request': (sound) => ({
    request: async (subject, message, options) => {
      await sound.request(subject, message, options)
      return sound.request(subject, message, options)
    },
  }),
}
const direct = new Map<string, (message: Uint8Array) => void>()

function renamed(from: BusFault['code'], to: BusFault['code']) {
  return (fault: BusFault) => {
    throw fault.code === from ? new BusFault(to, 'planted') : fault
  }
}

/**
 * Names of the suite's tests that fail when both participants have this fault. A test that hangs
 * has failed.
 */
async function failures(broken: (sound: Bus) => Partial<Bus>): Promise<string[]> {
  const cases: { name: string; body: (t: undefined) => Promise<void> }[] = []
  busContract<undefined>({
    patientMs: 200,
    test: (name, body) => cases.push({ name, body }),
    open: async () => {
      const server = new MemoryBus()
      const client = server.connect()
      return { server: overlaid(server, broken(server)), client: overlaid(client, broken(client)) }
    },
  })
  const failed: string[] = []
  for (const { name, body } of cases) {
    const hangs = Promise.withResolvers<never>()
    const timer = setTimeout(() => hangs.reject(new Error('hangs')), 300)
    await Promise.race([body(undefined), hangs.promise]).catch(() => failed.push(name))
    clearTimeout(timer)
  }
  return failed
}

function overlaid(sound: Bus, faults: Partial<Bus>): Bus {
  return new Proxy(sound, {
    get: (_, name) => {
      if (name in faults) return Reflect.get(faults, name)
      const found = Reflect.get(sound, name)
      return typeof found === 'function' ? found.bind(sound) : found
    },
  })
}
