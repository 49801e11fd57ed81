/** Counts of two frontends on a real NATS, each with its own connection. */

import { NatsBus } from '@holdfast/bus-nats'
import { plainLink } from '@holdfast/bus-nats/testing'
import { createRateLimits, defaultPolicies } from '@holdfast/http-kit'
import { systemClock } from '@holdfast/kernel'
import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { startNats } from '../../../infra/servers/nats.ts'
import { freePorts } from '../../../infra/servers/ports.ts'
import { until } from '../../../test/support/until.ts'
import { SharedCounts } from '../src/sharing/shared-counts.ts'

const quota = 40
const [port = 0] = await freePorts(1)
const nats = await startNats({ directory: t.testdir(), port })
t.teardown(() => nats.stop('SIGKILL'))

async function frontend(self: string) {
  const bus = await NatsBus.connect({ ...plainLink, servers: [`127.0.0.1:${port}`], name: self })
  const rateLimits = createRateLimits({
    mode: 'default',
    clock: systemClock,
    // A window so long that the test does not reach its end.
    policies: { ...defaultPolicies, standard: { quota, windowSeconds: 86_400 } },
  })
  const shared = new SharedCounts({ bus, rateLimits, self, onFault: (error) => t.fail(String(error)) })
  await bus.flush()
  t.teardown(async () => {
    shared.close()
    await bus.close()
  })
  const ask = async (ip: string, endpoint = 'x') => {
    const request = { ip, rateLimit: null } as FastifyRequest
    try {
      await rateLimits.takeAddress(request, endpoint)
      return request.rateLimit?.remaining
    } catch (error) {
      return (error as { status: string }).status
    }
  }
  return { bus, ask }
}

const one = await frontend('one')
const other = await frontend('other')

async function callsUntilRefused({ ask }: typeof one, ip: string): Promise<number> {
  let calls = 0
  await until(async () => {
    calls++
    return (await ask(ip)) === 'error-rateLimit'
  })
  return calls
}

t.test('a client that spent its budget at one frontend is soon refused at the other', async (t) => {
  for (let call = 0; call < quota; call++) t.type(await one.ask('192.0.2.1'), 'number')
  const calls = await callsUntilRefused(other, '192.0.2.1')
  t.ok(calls < quota, 'not by its own count')
  t.type(await other.ask('192.0.2.1', 'another endpoint'), 'number')
  t.type(await other.ask('192.0.2.2'), 'number', 'another address')
})

t.test('two frontends have one budget together, and no call is counted twice', async (t) => {
  for (let call = 0; call < quota / 2; call++) {
    t.type(await one.ask('192.0.2.3'), 'number')
    t.type(await other.ask('192.0.2.3'), 'number')
  }
  for (const each of [one, other]) {
    const calls = await callsUntilRefused(each, '192.0.2.3')
    t.ok(calls < quota / 2, 'not by its own count')
  }
})

t.test('calls far from the limit are not sent', async (t) => {
  const heard: string[] = []
  const subscription = one.bus.subscribe('counts', (message) => heard.push(Buffer.from(message).toString()))
  t.teardown(() => subscription.close())
  await one.bus.flush()
  await other.ask('192.0.2.4')
  for (let call = 0; call < quota / 4; call++) await other.ask('192.0.2.5')
  await until(async () => heard.some((text) => text.includes('192.0.2.5')))
  t.notOk(heard.some((text) => text.includes('192.0.2.4')))
})

t.test('invalid messages have no effect', async (t) => {
  for (const rubbish of [
    '',
    '{',
    'null',
    '{"from":"a"}',
    '{"from":"a","windowMs":1,"window":1,"counts":[[1,2]]}',
  ])
    one.bus.publish('counts', Buffer.from(rubbish))
  const window = Math.floor(Date.now() / 86_400_000)
  const counts = [['a x 192.0.2.6', quota]]
  one.bus.publish(
    'counts',
    Buffer.from(JSON.stringify({ from: 'good', windowMs: 86_400_000, window, counts })),
  )
  await until(async () => (await other.ask('192.0.2.6')) === 'error-rateLimit')
  t.pass()
})
