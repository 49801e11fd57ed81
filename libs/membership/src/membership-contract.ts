/** What every membership must do, as a suite that depends on no test runner. */
import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { type Clock, hourMs, systemClock } from '@holdfast/kernel'
import { isClockOff } from './clocks.ts'
import type { Member, MemberInfo, Membership } from './membership.ts'

export interface MemberGroup {
  /** Adds a member to the group of this test; the others may not know it yet when this resolves. */
  join(info: MemberInfo, options: { load: () => number; clock?: Clock }): Promise<Membership>
  /** Ends a member as a crash would, without a message; omit it where that cannot be done. */
  kill?(member: Membership): Promise<void>
}

export interface MembershipContract<T> {
  test: (name: string, body: (t: T) => Promise<void>) => unknown
  /** A group without members; the test's own teardown closes those that joined. */
  open: (t: T) => Promise<MemberGroup>
  /** How long a view may take to follow. Default 10 s, which only a broken one reaches. */
  patientMs?: number
}

/** Time between two checks whether a view has followed. */
const lookMs = 5

const info = (id: string, more: Partial<MemberInfo> = {}): MemberInfo => ({
  id,
  role: 'actor-host',
  region: 'eu-par',
  addresses: { bus: `accounts.${id}` },
  ...more,
})
const idle = { load: () => 0 }
const ids = (membership: Membership) => membership.members().map(({ id }) => id)

/** A wall clock with an offset. */
const shifted = () => {
  const clock = { aheadMs: 0, now: () => Date.now() + clock.aheadMs, monotonic: systemClock.monotonic }
  return clock
}
const off = (membership: Membership) =>
  membership
    .members()
    .filter(isClockOff)
    .map(({ id }) => id)

export function membershipContract<T>(contract: MembershipContract<T>): void {
  testViews(contract)
  testListeners(contract)
  testClocks(contract)
  testDetails(contract)
}

function testViews<T>({ test, open, patientMs = 10_000 }: MembershipContract<T>): void {
  const eventually = patience(patientMs)

  test('a lone member sees itself with its own details', async (t) => {
    const { join } = await open(t)
    const before = Date.now() - 1
    const said = info('alone', {
      role: 'storage-node',
      region: 'na-nyc',
      addresses: { download: 'http://a', x: 'y' },
    })
    const membership = await join(said, { load: () => 0.25 })
    await eventually('itself', () => ids(membership).length === 1)
    for (const member of [membership.self(), membership.members()[0] as Member]) {
      const { seenMs, clockOffsetMs, ...rest } = member
      assert.deepEqual(rest, { ...said, load: 0.25 })
      assert.equal(clockOffsetMs, 0)
      assert.ok(seenMs >= before - patientMs && seenMs <= Date.now() + 1)
    }
  })

  test('all see all, with their details, in the order of ids', async (t) => {
    const { join } = await open(t)
    const names = ['c', 'a', 'b-10', 'b-9']
    const all = await Promise.all(names.map((id) => join(info(id), idle)))
    for (const membership of all) {
      await eventually('all', () => ids(membership).join() === 'a,b-10,b-9,c')
      assert.deepEqual(
        membership.members().map(({ addresses, role, region }) => [addresses, role, region]),
        ['a', 'b-10', 'b-9', 'c'].map((id) => [{ bus: `accounts.${id}` }, 'actor-host', 'eu-par']),
      )
    }
  })

  test('load is included', async (t) => {
    const { join } = await open(t)
    let load = 0
    const [one] = [await join(info('one'), idle), await join(info('two'), { load: () => load })]
    const seen = () => one.members().find(({ id }) => id === 'two')?.load
    await eventually('the first load', () => seen() === 0)
    load = 0.75
    await eventually('the second load', () => seen() === 0.75)
    assert.equal(one.self().load, 0)
  })

  test('a member that closes is gone for the others, and alone for itself', async (t) => {
    const { join } = await open(t)
    const [one, two] = [await join(info('one'), idle), await join(info('two'), idle)]
    await eventually('both', () => ids(one).length === 2 && ids(two).length === 2)
    await two.close()
    await two.close()
    await eventually('one', () => ids(one).join() === 'one')
    assert.deepEqual(ids(two), ['two'])
    assert.equal(two.self().id, 'two')
  })

  test('a member that died is gone for the others after a while', async (t) => {
    const { join, kill } = await open(t)
    if (kill === undefined) return
    const [one, two] = [await join(info('one'), idle), await join(info('two'), idle)]
    await eventually('both', () => ids(one).length === 2)
    await kill(two)
    await eventually('one', () => ids(one).join() === 'one')
  })

  test('a member that returns under its id is there again, with its new details', async (t) => {
    const { join } = await open(t)
    const [one, two] = [await join(info('one'), idle), await join(info('two'), idle)]
    await eventually('both', () => ids(one).length === 2)
    await two.close()
    await join(info('two', { addresses: { bus: 'elsewhere' } }), idle)
    await eventually('the new details', () => one.members().at(-1)?.addresses.bus === 'elsewhere')
    assert.deepEqual(ids(one), ['one', 'two'])
  })
}

function testListeners<T>({ test, open, patientMs = 10_000 }: MembershipContract<T>): void {
  const eventually = patience(patientMs)

  test('listeners hear of joins and leaves, with the view at that time', async (t) => {
    const { join } = await open(t)
    const one = await join(info('one'), idle)
    await eventually('itself', () => ids(one).length === 1)
    const reported: string[] = []
    one.onChange(() => {
      throw new Error('planted')
    })
    one.onChange((members) => {
      const said = members.map(({ id }) => id).join()
      assert.equal(said, ids(one).join())
      reported.push(said)
    })
    const two = await join(info('two'), idle)
    await eventually('two came', () => reported.at(-1) === 'one,two')
    await two.close()
    await eventually('two went', () => reported.at(-1) === 'one')
  })

  test('a closed subscription receives nothing more', async (t) => {
    const { join } = await open(t)
    const one = await join(info('one'), idle)
    await eventually('itself', () => ids(one).length === 1)
    const reported: string[] = []
    const listener = (name: string) => () => void reported.push(name)
    const closed = one.onChange(listener('closed'))
    one.onChange(listener('open'))
    closed.close()
    closed.close()
    await join(info('two'), idle)
    await eventually('reported', () => reported.length > 0)
    assert.ok(!reported.includes('closed'))
  })

  test('listeners are not called within the call that changes the view', async (t) => {
    const { join } = await open(t)
    const one = await join(info('one'), idle)
    await eventually('itself', () => ids(one).length === 1)
    let reported = false
    one.onChange(() => {
      reported = true
    })
    const joining = join(info('two'), idle)
    assert.equal(reported, false)
    await joining
    await eventually('reported', () => reported)
  })
}

function testClocks<T>({ test, open, patientMs = 10_000 }: MembershipContract<T>): void {
  const eventually = patience(patientMs)

  test('a wall clock that is far off is off in every view, its own included, until it is right', async (t) => {
    const { join } = await open(t)
    const clock = shifted()
    const all = [await join(info('one'), idle), await join(info('two'), idle)]
    const three = await join(info('three'), { ...idle, clock })
    all.push(three)
    const allSee = (wanted: string) => () => all.every((view) => off(view).join() === wanted)
    await eventually('all', () => all.every((view) => ids(view).length === 3))
    await eventually('no clock off', allSee(''))
    for (const aheadMs of [hourMs, -hourMs]) {
      clock.aheadMs = aheadMs
      assert.ok(isClockOff(three.self()), 'it knows at once')
      await eventually('off by an hour', allSee('three'))
      for (const view of all) {
        const seenMs = view.members().find(({ id }) => id === 'three')?.clockOffsetMs ?? 0
        assert.ok(Math.abs(seenMs - aheadMs) < 1_000, `${seenMs} ms`)
      }
      clock.aheadMs = 0
      await eventually('right again', allSee(''))
    }
  })

  test('of two different clocks neither can be proved right', async (t) => {
    const { join } = await open(t)
    const clock = shifted()
    const [one, two] = [await join(info('one'), idle), await join(info('two'), { ...idle, clock })]
    await eventually('both', () => ids(one).length === 2 && ids(two).length === 2)
    clock.aheadMs = 10_000
    await eventually('both off', () => [one, two].every((view) => off(view).length === 2))
    const reported = one.members().map(({ clockOffsetMs }) => Math.round(clockOffsetMs / 1_000))
    assert.deepEqual(reported, [-10, 10])
    await two.close()
    await eventually('alone', () => ids(one).length === 1)
    assert.equal(one.self().clockOffsetMs, 0)
  })
}

function testDetails<T>({ test, open, patientMs = 10_000 }: MembershipContract<T>): void {
  const eventually = patience(patientMs)

  test('a caller can change a returned view without an effect', async (t) => {
    const { join } = await open(t)
    const said = info('one')
    const one = await join(said, idle)
    ;(said.addresses as Record<string, string>).bus = 'changed'
    await eventually('itself', () => ids(one).length === 1)
    for (const member of [one.self(), ...one.members()]) {
      member.id = 'changed'
      ;(member.addresses as Record<string, string>).bus = 'changed'
    }
    assert.deepEqual(ids(one), ['one'])
    assert.equal(one.self().addresses.bus, 'accounts.one')
    assert.equal(one.members()[0]?.addresses.bus, 'accounts.one')
  })

  test('invalid details are refused', async (t) => {
    const { join } = await open(t)
    for (const id of ['', 'a b', 'ü', 'x'.repeat(129)]) {
      await assert.rejects(async () => join(info(id), idle), RangeError)
    }
    const addresses = { long: 'x'.repeat(5_000) }
    await assert.rejects(async () => join(info('one', { addresses }), idle), RangeError)
  })
}

/** Waits until a view has followed, for this time at most. */
function patience(patientMs: number) {
  return async (what: string, holds: () => boolean): Promise<void> => {
    const end = performance.now() + patientMs
    while (!holds()) {
      assert.ok(performance.now() < end, `${what} within ${patientMs} ms`)
      await delay(lookMs)
    }
  }
}
