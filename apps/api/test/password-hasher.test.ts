/** A client that sets many passwords does not delay others. */
import { PasswordWork } from '@holdfast/actor-runtime'
import { RefusalError } from '@holdfast/http-kit'
import t from 'tap'
import { PasswordHasher } from '../src/accounts/password-hasher.ts'

/** A hasher whose hashes end when the test says so, in the order in which they began. */
function heldHasher(work?: PasswordWork) {
  const begun: string[] = []
  const ends: (() => void)[] = []
  const hasher = new PasswordHasher({
    work,
    hash: (password) => {
      begun.push(password)
      return new Promise((resolve) => ends.push(() => resolve(Buffer.alloc(32))))
    },
  })
  const endOne = async () => {
    ends.shift()?.()
    await new Promise(setImmediate)
  }
  return { hasher, begun, ends, endOne }
}

t.test('another network has its turn at once, however many requests of one wait', async (t) => {
  const { hasher, begun, ends, endOne } = heldHasher()
  const many = Array.from({ length: 150 }, (_, n) =>
    hasher.verifier(`many ${n}`, { network: 'a', account: `a${n}` }),
  )
  const one = hasher.verifier('one', { network: 'b', account: 'b' })
  await new Promise(setImmediate)
  t.same(begun, ['many 0', 'many 1'])
  await endOne()
  t.equal(begun.at(-1), 'one')
  while (ends.length > 0) await endOne()
  t.match(await one, { cost: 14, salt: Buffer, hash: Buffer })
  await Promise.all(many)
  t.equal(begun.length, 151)
})

t.test('where checks and hashes are of one process, two of both run at a time', async (t) => {
  const work = new PasswordWork()
  const { hasher, begun, endOne } = heldHasher(work)
  const checks: (() => void)[] = []
  for (const folder of ['one', 'two'])
    void work.run({ network: 'readers', folder }, () => new Promise<void>((resolve) => checks.push(resolve)))
  const made = hasher.verifier('new', { network: 'owner', account: 'a' })
  await new Promise(setImmediate)
  t.same([checks.length, begun], [2, []])
  checks[0]?.()
  await new Promise(setImmediate)
  t.same(begun, ['new'])
  await endOne()
  await made
})

t.test('past the bound the network that has most is refused, and not the next one', async (t) => {
  const { hasher, ends, endOne } = heldHasher()
  const many = Array.from({ length: 300 }, (_, n) =>
    hasher.verifier(`many ${n}`, { network: 'a', account: `a${n}` }).catch((error: unknown) => error),
  )
  const other = hasher.verifier('one', { network: 'b', account: 'b' })
  await new Promise(setImmediate)
  while (ends.length > 0) await endOne()
  await other
  const refused = (await Promise.all(many)).filter((outcome) => outcome instanceof RefusalError)
  t.equal(refused.length, 300 - 2 - 255, 'two run, and all but one of the 256 places')
  t.match(refused[0], { status: 'error-rateLimit' })
})
