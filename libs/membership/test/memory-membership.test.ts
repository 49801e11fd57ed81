import t from 'tap'
import {
  AgreedClock,
  clockOffsets,
  isClockOff,
  type Member,
  type MemberInfo,
  type Membership,
  MemoryMembership,
  maxMembers,
} from '../src/index.ts'
import { type MemberGroup, membershipContract } from '../src/testing.ts'

const info = (id: string): MemberInfo => ({ id, role: 'standalone', region: 'eu-par', addresses: {} })

function gathering(broken: (sound: MemoryMembership) => Partial<Membership> = () => ({})): MemberGroup {
  let first: MemoryMembership | undefined
  return {
    join: async (info, options) => {
      const joined = first?.join(info, options) ?? new MemoryMembership(info, options)
      first ??= joined
      return overlaid(joined, broken(joined))
    },
  }
}

t.test('membership within a process', async (t) => {
  membershipContract({ test: t.test, open: async () => gathering() })
})

t.test('a member can lose sight of another one, and finds it again', async (t) => {
  const one = new MemoryMembership(info('one'))
  const two = one.join(info('two'))
  const reported: string[] = []
  one.onChange((members) => reported.push(members.map(({ id }) => id).join()))
  await Promise.resolve()
  one.hide('two')
  one.hide('one')
  t.same(two.members().length, 2)
  await Promise.resolve()
  one.show('two')
  await Promise.resolve()
  t.same(reported, ['one,two', 'one', 'one,two'])
})

t.test('while fewer than half of all clocks are off exactly those are; else all are', async (t) => {
  const off = (...clocks: number[]) =>
    clockOffsets(clocks).map((clockOffsetMs) => isClockOff({ clockOffsetMs }))
  t.strictSame(off(), [])
  t.strictSame(off(7), [false])
  t.strictSame(off(0, 3_000), [true, true])
  t.strictSame(off(0, 2_000), [false, false])
  t.strictSame(off(0, 3_600_000, 500), [false, true, false])
  t.strictSame(off(0, 3_600_000, 500, -9_000, 1_000), [false, true, false, true, false])
  t.strictSame(off(0, 3_600_000, 500, 3_600_000), [true, true, true, true])
  t.strictSame(clockOffsets([100, 10_100, 200]), [-100, 9_900, 0])
})

t.test('a clock that is off is corrected by those of the others, unless half are off', async (t) => {
  let monotonicMs = 0
  const wall = (ahead: { ms: number }) => ({
    now: () => 1_000_000 + monotonicMs + ahead.ms,
    monotonic: () => monotonicMs,
  })
  const [own, other] = [{ ms: 0 }, { ms: 0 }]
  const one = new MemoryMembership(info('one'), { clock: wall(own) })
  one.join(info('two'), { clock: wall({ ms: 0 }) })
  one.join(info('three'), { clock: wall(other) })
  const agreed = new AgreedClock(wall(own), one)
  t.equal(agreed.now(), 1_000_000)
  own.ms = 86_400_000
  t.equal(agreed.now(), 1_000_000, 'at once after a step')
  monotonicMs = 500
  t.equal(agreed.now(), 1_000_500)
  other.ms = -3_600_000
  monotonicMs = 2_000
  t.equal(agreed.now(), 1_002_000 + own.ms, 'which are right is unknown')
  other.ms = 0
  monotonicMs = 4_000
  t.equal(agreed.now(), 1_004_000)
  own.ms = 1_500
  t.equal(agreed.now(), 1_005_500, 'what is not off is not corrected')
  t.equal(agreed.monotonic(), 4_000)
})

t.test('a duplicate id, a load outside 0 to 1 and too many members are refused', async (t) => {
  let load = 0
  const one = new MemoryMembership(info('one'), { load: () => load })
  t.throws(() => one.join(info('one')), RangeError)
  for (load of [-0.1, 1.1, Number.NaN]) t.throws(() => one.self(), RangeError)
  for (let count = 1; count < maxMembers; count++) one.join(info(`other-${count}`))
  t.throws(() => one.join(info('too many')), RangeError)
})

const broken: { [fault: string]: (sound: MemoryMembership) => Partial<Membership> } = {
  'oneself is not among the members': (sound) => ({
    members: () => sound.members().filter(({ id }) => id !== sound.self().id),
  }),
  'members have no order': (sound) => ({ members: () => [...sound.members()].reverse() }),
  'details are left out': (sound) => ({
    members: () => sound.members().map((one) => ({ ...one, addresses: {} })),
  }),
  'load is that of the first look': (sound) => {
    const first = new Map<string, Member>()
    return {
      members: () =>
        sound.members().map((member) => {
          const seen = first.get(member.id) ?? member
          first.set(member.id, seen)
          return structuredClone(seen)
        }),
    }
  },
  'close does nothing': () => ({ close: async () => {} }),
  'a closed one still sees the others': (sound) => {
    const seen: Member[] = []
    return {
      members: () => {
        const now = sound.members()
        if (now.length >= seen.length) seen.splice(0, seen.length, ...now)
        return seen
      },
    }
  },
  'listeners are not called': () => ({ onChange: () => ({ close: () => {} }) }),
  'a closed subscription hears on': (sound) => ({
    onChange: (listener) => {
      sound.onChange(listener)
      return { close: () => {} }
    },
  }),
  'a listener gets another view than `members` returns': (sound) => ({
    onChange: (listener) => sound.onChange((members) => listener(members.slice(1))),
  }),
  'clocks are not compared': (sound) => ({
    members: () => sound.members().map((member) => ({ ...member, clockOffsetMs: 0 })),
  }),
  'the own clock is always right': (sound) => ({ self: () => ({ ...sound.self(), clockOffsetMs: 0 }) }),
  'the view gives itself away': (sound) => {
    const self = sound.self()
    return { self: () => self }
  },
}

t.test('the suite finds every planted fault', async (t) => {
  t.same(await failures(() => ({})), [])
  for (const [fault, make] of Object.entries(broken)) {
    const failed = await failures(make)
    t.ok(failed.length > 0, `${fault}: ${failed.length} tests fail`)
  }
})

async function failures(make: (sound: MemoryMembership) => Partial<Membership>): Promise<string[]> {
  const cases: { name: string; body: (t: undefined) => Promise<void> }[] = []
  membershipContract<undefined>({
    patientMs: 60,
    test: (name, body) => cases.push({ name, body }),
    open: async () => gathering(make),
  })
  const failed: string[] = []
  for (const { name, body } of cases) await body(undefined).catch(() => failed.push(name))
  return failed
}

function overlaid(sound: MemoryMembership, faults: Partial<Membership>): Membership {
  return {
    self: () => sound.self(),
    members: () => sound.members(),
    onChange: (listener) => sound.onChange(listener),
    close: () => sound.close(),
    ...faults,
  }
}
