import { type Member, MemoryMembership } from '@holdfast/membership'
import t from 'tap'
import { clocksStatus } from '../src/operator/cluster-status.ts'

function members(...aheadMs: number[]): readonly Member[] {
  const nowMs = Date.UTC(2030, 0, 1)
  const details = (at: number) => ({
    id: `h${at}`,
    role: 'actor-host' as const,
    region: 'eu-par',
    addresses: {},
  })
  const clockOf = (ms: number) => ({ now: () => nowMs + ms, monotonic: () => 0 })
  const [first = 0, ...others] = aheadMs
  const one = new MemoryMembership(details(1), { clock: clockOf(first) })
  for (const [at, ms] of others.entries()) one.join(details(at + 2), { clock: clockOf(ms) })
  return one.members()
}

t.test('status names the members whose clocks are off', async (t) => {
  t.strictSame(clocksStatus(members(0, 1_000, -900)), { agree: true, says: 'all clocks agree' })
  t.strictSame(clocksStatus(members(0, 3_600_000, 100)), {
    agree: false,
    says: 'h2 is 3599.9 s ahead. These fire no expiry until their clocks are right.',
  })
  t.strictSame(clocksStatus(members(0, -5_000)), {
    agree: false,
    says: 'h1 is 5.0 s ahead, h2 is 5.0 s behind. These fire no expiry until their clocks are right. Which clocks are right is unknown.',
  })
})
