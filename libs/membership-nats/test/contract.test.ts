import { NatsBus } from '@holdfast/bus-nats'
import { plainLink } from '@holdfast/bus-nats/testing'
import type { MemberInfo, Membership } from '@holdfast/membership'
import { membershipContract } from '@holdfast/membership/testing'
import t, { type Test } from 'tap'
import { startNats } from '../../../infra/servers/nats.ts'
import { freePort } from '../../../infra/servers/ports.ts'
import { until } from '../../../test/support/until.ts'
import { NatsMembership, type NatsMembershipOptions, plainReport } from '../src/index.ts'
import { plainMember } from '../src/testing.ts'

const port = await freePort()
const server = await startNats({ directory: t.testdir(), port })
t.teardown(() => server.stop())

async function connect(t: Test, name: string): Promise<NatsBus> {
  const bus = await NatsBus.connect({ ...plainLink, servers: [`127.0.0.1:${port}`], name })
  t.teardown(() => bus.close())
  return bus
}

/** Gatherings share one server: each prefixes its region names. */
function gathered(bus: NatsBus, gathering: string): NatsBus {
  const inside = (subject: string) => `${gathering}.${subject}`
  return {
    publish: (subject: string, message: Uint8Array) => bus.publish(inside(subject), message),
    subscribe: (subject: string, handler: (message: Uint8Array) => void) =>
      bus.subscribe(inside(subject), handler),
    request: (subject: string, message: Uint8Array, options: { timeoutMs: number }) =>
      bus.request(inside(subject), message, options),
    serve: (subject: string, handler: (message: Uint8Array) => Promise<Uint8Array>) =>
      bus.serve(inside(subject), handler),
  } as NatsBus
}

const quick = { intervalMs: 40, deadMs: 400 }

t.test('membership by heartbeats', async (t) => {
  membershipContract<Test>({
    test: t.test,
    open: async (t) => {
      const bus = gathered(await connect(t, 'gathering'), crypto.randomUUID())
      return {
        join: async (info, options) => {
          const membership = new NatsMembership({ ...plainMember, bus, info, ...options }, quick)
          t.teardown(() => membership.close())
          return membership
        },
        kill: async (member: Membership) => (member as NatsMembership).die(),
      }
    },
  })
})

const info = (id: string): MemberInfo => ({ id, role: 'actor-host', region: 'eu-par', addresses: {} })

t.test(
  'a member cut off from the bus declares no member dead until it receives its own heartbeats again',
  async (t) => {
    const real = await connect(t, 'cut')
    const gathering = crypto.randomUUID()
    const inner = gathered(real, gathering)
    let cut = false
    let now = 0
    const clock = { now: () => Date.now(), monotonic: () => now }
    const bus = {
      ...inner,
      publish: (subject: string, message: Uint8Array) => void (cut || inner.publish(subject, message)),
      subscribe: (subject: string, handler: (message: Uint8Array) => void) =>
        inner.subscribe(subject, (message) => void (cut || handler(message))),
    } as NatsMembershipOptions['bus']
    const one = new NatsMembership({ ...plainMember, bus, info: info('one'), clock }, quick)
    const two = new NatsMembership({ ...plainMember, bus: inner, info: info('two') }, quick)
    t.teardown(() => one.close())
    await until(() => one.members().length === 2)
    cut = true
    two.die()
    now += 10_000
    const end = performance.now() + 5 * quick.intervalMs
    await until(() => performance.now() > end)
    t.equal(one.members().length, 2, 'it receives nothing, so it knows nothing')
    cut = false
    await until(() => one.members().length === 1)
  },
)

t.test(
  'a member whose process is gone is declared dead by all after one failed call; a silent one is not',
  async (t) => {
    const gathering = crypto.randomUUID()
    const patient = { intervalMs: 40, deadMs: 60_000 }
    const join = async (id: string) => {
      const real = await NatsBus.connect({ ...plainLink, servers: [`127.0.0.1:${port}`], name: id })
      const membership = new NatsMembership(
        { ...plainMember, bus: gathered(real, gathering), info: info(id) },
        patient,
      )
      return { real, membership }
    }
    const [one, two, gone] = await Promise.all(['one', 'two', 'gone'].map(join))
    if (one === undefined || two === undefined || gone === undefined) throw new Error('three join')
    t.teardown(async () => {
      for (const { membership } of [one, two]) await membership.close()
      for (const { real } of [one, two, gone]) await real.close()
    })
    await until(() => [one, two].every(({ membership }) => membership.members().length === 3))
    await one.membership.suspect('gone')
    await one.membership.suspect('unknown')
    t.equal(one.membership.members().length, 3, 'it answers')
    gone.membership.die()
    await gone.real.close()
    void one.membership.suspect('gone')
    const startedMs = performance.now()
    await until(() => [one, two].every(({ membership }) => membership.members().length === 2))
    t.ok(performance.now() - startedMs < 2_000)
  },
)

t.test(
  'readiness is reported as a change, heartbeats of an earlier life and garbage are ignored',
  async (t) => {
    const real = await connect(t, 'ready')
    const gathering = crypto.randomUUID()
    const bus = gathered(real, gathering)
    let ready = false
    const said: Uint8Array[] = []
    const spy = bus.subscribe('members.>', (message) => said.push(message))
    t.teardown(() => spy.close())
    const one = new NatsMembership({ ...plainMember, bus, info: info('one') }, quick)
    const early = new NatsMembership(
      { ...plainMember, bus, info: info('two'), clock: { now: () => 5, monotonic: () => 0 } },
      quick,
    )
    await until(() => one.members().length === 2)
    early.die()
    const later = new NatsMembership(
      {
        ...plainMember,
        bus,
        info: info('two'),
        report: () => ({ ...plainReport, ready, accounts: 7 }),
      },
      quick,
    )
    t.teardown(async () => {
      await one.close()
      await later.close()
    })
    const readyOf = () => one.beats().find(({ id }) => id === 'two')
    await until(() => readyOf()?.accounts === 7)
    for (const word of [...said]) bus.publish('members.eu-par.two', word)
    bus.publish('members.eu-par.x', Buffer.from('rubbish'))
    let reported = 0
    one.onChange(() => void reported++)
    ready = true
    await until(() => readyOf()?.ready === true)
    t.ok(reported > 0)
    t.equal(readyOf()?.accounts, 7)
    // The member's own clock is read each time.
    const withoutClock = (beat: object | undefined) => ({ ...beat, wallMs: 0 })
    for (const beat of one.beats())
      t.same(withoutClock(one.beatOf(beat.id)), withoutClock(beat), 'one at a time')
    t.equal(one.beatOf('unknown'), undefined)
    t.equal(one.members().length, 2)
  },
)

t.test('a late heartbeat does not make its sender look behind', async (t) => {
  const real = await connect(t, 'late')
  const inner = gathered(real, crypto.randomUUID())
  let nowMs = 0
  const clock = { now: () => 1e12 + nowMs, monotonic: () => nowMs }
  const held: (() => void)[] = []
  let holds = false
  const bus = {
    ...inner,
    subscribe: (subject: string, handler: (message: Uint8Array) => void) =>
      inner.subscribe(
        subject,
        (message) => void (holds ? held.push(() => handler(message)) : handler(message)),
      ),
  } as NatsMembershipOptions['bus']
  const slow = { intervalMs: 60_000, deadMs: 240_000 }
  const one = new NatsMembership({ ...plainMember, bus, info: info('one'), clock }, slow)
  const two = new NatsMembership({ ...plainMember, bus: inner, info: info('two'), clock }, slow)
  t.teardown(async () => {
    await one.close()
    await two.close()
  })
  await until(() => one.members().length === 2)
  holds = true
  two.announce()
  await until(() => held.length > 0)
  nowMs += 5_000
  for (const deliver of held) deliver()
  t.equal(one.self().clockOffsetMs, 0)
})
