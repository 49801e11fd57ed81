/** Slow checks of passwords run beside the turns of an account. */
import type { PasswordVerifier } from '@holdfast/wire'
import t from 'tap'
import { noMetrics } from '../src/observer.ts'
import { open, read } from './asks.ts'
import { itemsOf, ManualTime, settled, statusOf, World } from './world.ts'

const verifier = (byte: number): PasswordVerifier => ({
  salt: Buffer.alloc(16, byte),
  hash: Buffer.alloc(32, byte),
  cost: 4,
})

function protect(world: World, password: PasswordVerifier) {
  const attribute = { $case: 'password' as const, value: { verifier: password } }
  return world.ask({ $case: 'updateContent', value: { contentId: '', attribute } })
}

t.test('a slow password check does not block the account, and its verdict is kept', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const checks: ((verdict: boolean) => void)[] = []
  world.host('one', { checkPassword: () => new Promise((resolve) => checks.push(resolve)) })
  await world.create()
  await protect(world, verifier(1))
  const reading = read(world, 'right')
  await settled()
  t.equal(statusOf(await world.folder('meanwhile')), 'ok')
  t.ok(await open(reading))
  checks[0]?.(true)
  t.equal(itemsOf(await reading).length, 1)
  t.equal(statusOf(await read(world, 'right')), 'ok')
  t.equal(checks.length, 1, 'asked once')

  const overtaken = read(world, 'other')
  await settled()
  await protect(world, verifier(2))
  checks[1]?.(true)
  await settled()
  t.equal(checks.length, 3, 'the verdict on the old password says nothing about the new one')
  checks[2]?.(false)
  t.equal(statusOf(await overtaken), 'error-passwordWrong')
})

t.test('the time of a check is measured, once', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  const measured: number[] = []
  const asked = Promise.withResolvers<void>()
  const verdict = Promise.withResolvers<boolean>()
  world.host('one', {
    checkPassword() {
      asked.resolve()
      return verdict.promise
    },
    clock: time,
    timers: time,
    metrics: { ...noMetrics, passwordChecked: ({ ms }) => void measured.push(ms) },
  })
  await world.create()
  await protect(world, verifier(1))
  const reading = read(world, 'right')
  await asked.promise
  await time.advance(70)
  t.strictSame(measured, [], 'it has not ended')
  verdict.resolve(true)
  t.equal(statusOf(await reading), 'ok')
  t.equal(statusOf(await read(world, 'right')), 'ok', 'by the verdict that is kept')
  t.strictSame(measured, [70])
})

t.test('password checks are bounded: too many waiting are refused', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const checks: ((verdict: boolean) => void)[] = []
  world.host('one', {
    checkPassword: () => new Promise((resolve) => checks.push(resolve)),
    bounds: { passwordChecksQueuedMax: 3 },
  })
  await world.create()
  await protect(world, verifier(1))
  const readings = Array.from({ length: 8 }, (_, at) => read(world, `guess ${at}`))
  await settled()
  t.equal(checks.length, 2, 'two at one time')
  for (let at = 0; at < 5; at++) {
    checks[at]?.(false)
    await settled()
  }
  const statuses = (await Promise.all(readings)).map(statusOf)
  t.equal(statuses.filter((status) => status === 'error-passwordWrong').length, 5)
  t.equal(statuses.filter((status) => status === 'error-rateLimit').length, 3)
})

t.test('scrypt over the lower-case hex opens, in any case; a plain text never does', async (t) => {
  const { scryptSync } = await import('node:crypto')
  const world = new World()
  t.teardown(() => world.close())
  world.host()
  await world.create()
  const hex = 'ab'.repeat(32)
  const salt = Buffer.alloc(16, 9)
  await protect(world, { salt, hash: scryptSync(hex, salt, 32, { N: 16, r: 8, p: 1 }), cost: 4 })
  t.equal(statusOf(await read(world, hex.toUpperCase())), 'ok')
  t.equal(statusOf(await read(world, 'cd'.repeat(32))), 'error-passwordWrong')
  t.equal(statusOf(await read(world, 'plain')), 'error-passwordWrong')
})
