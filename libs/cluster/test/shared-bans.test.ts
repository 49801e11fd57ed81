import { MemoryBus } from '@holdfast/bus'
import { type CountingRateLimits, createRateLimits, defaultPolicies } from '@holdfast/http-kit'
import { systemClock } from '@holdfast/kernel'
import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { SharedBans } from '../src/sharing/shared-bans.ts'

/** A frontend that bans a client after three requests. */
function frontend(): CountingRateLimits {
  return createRateLimits({
    mode: 'default',
    clock: systemClock,
    policies: {
      ...defaultPolicies,
      standard: { quota: 1, windowSeconds: 60 },
      excess: { quota: 2, windowSeconds: 60 },
    },
  })
}

t.test(
  'a ban of one frontend applies at the other within a second, and lifting it at one lifts it at both',
  async (t) => {
    const bus = new MemoryBus()
    const rateLimits = [frontend(), frontend()] as const
    const onFault = (error: unknown) => t.fail(String(error))
    const shared = rateLimits.map(
      (own) => new SharedBans({ bus: bus.connect(), rateLimits: own, onFault }),
    ) as [SharedBans, SharedBans]
    t.teardown(() => {
      for (const one of shared) one.close()
    })
    const request = { ip: '192.0.2.7', rateLimit: null } as FastifyRequest
    for (let call = 0; call < 4; call++) await rateLimits[0].takeAddress(request, 'x')?.catch(() => {})
    t.equal(rateLimits[0].bans().length, 1)
    const startedMs = performance.now()
    await until(() => rateLimits[1].bans().length === 1)
    t.ok(performance.now() - startedMs < 1_000)
    t.strictSame(rateLimits[1].bans(), rateLimits[0].bans())
    const refused = await rateLimits[1].takeAddress({ ...request }, 'other')?.catch((error: unknown) => error)
    t.match(refused, { status: 'error-rateLimit' })
    t.equal(shared[1].lift('192.0.2.7'), true)
    await until(() => rateLimits[0].bans().length === 0)
  },
)

t.test('invalid messages have no effect', async (t) => {
  const bus = new MemoryBus()
  const rateLimits = frontend()
  const shared = new SharedBans({ bus, rateLimits, onFault: t.fail as () => void })
  t.teardown(() => shared.close())
  for (const rubbish of ['', '{', '[]', '{"bans":7}', '{"bans":[{"network":7}]}', 'null'])
    bus.publish('bans', Buffer.from(rubbish))
  const ban = { network: '192.0.2.9', untilMs: Date.now() + 60_000, times: 1 }
  bus.publish('bans', Buffer.from(JSON.stringify({ bans: [ban] })))
  await until(() => rateLimits.bans().some(({ network }) => network === ban.network))
  t.strictSame(rateLimits.bans(), [ban])
})
