/** On a separate instance, with default limits. Every case uses its own client addresses. */
import assert from 'node:assert/strict'
import type { Answer } from '../answer.ts'
import { mailsTo } from '../mails.ts'
import { cases } from '../suite.ts'
import { type Account, sha256, sleep, type World } from '../world.ts'

/** More calls than any budget allows that is spent one by one. */
const plenty = 4_000
/**
 * A body of this size counts as 120 requests. A slow machine makes fewer than 1,000 calls in a
 * window of 10 s, and would never spend a budget without it.
 */
const padding = 'x'.repeat(240 * 1024)

async function limited(world: World, from: string): Promise<World> {
  const { hosts } = await world.instances.get('limits')
  return world.at(hosts, { patient: false, from })
}

/** Calls, some at a time, until one is refused for its rate. */
async function untilRefused(
  call: (number: number) => Promise<Answer>,
): Promise<{ refusal: Answer; calls: number }> {
  for (let calls = 0; calls < plenty; calls += 20) {
    const answers = await Promise.all(Array.from({ length: 20 }, (_, at) => call(calls + at)))
    const refusal = answers.find((answer) => answer.code === 429)
    if (refusal) return { refusal, calls: calls + 20 }
  }
  return assert.fail(`${plenty} calls and no refusal`)
}

function assertRefusal(refusal: Answer): void {
  refusal.refused('error-rateLimit')
  assert.match(refusal.header('retry-after'), /^[1-9]\d*$/)
  assert.ok(refusal.header('ratelimit').length > 0, 'RateLimit reports the budget')
}

export const rateLimits = cases('rate limits and bans', (test) => {
  test(
    'answers show the budget; past it calls are refused for a while and work again then',
    ['429', 'Retry-After', 'RateLimit headers', 'recovery'],
    async (outer) => {
      const world = await limited(outer, '127.99.1.1')
      const guest = await world.guest()
      const call = () =>
        guest.call('PUT', `/contents/${guest.root}/update`, {
          json: { attribute: 'description', attributeValue: 'mine', padding },
        })
      const shown = await call()
      shown.ok()
      assert.match(shown.header('ratelimit'), /r=\d+/)
      assert.ok(shown.header('ratelimit-policy').length > 0)
      const { refusal } = await untilRefused(call)
      assertRefusal(refusal)
      ;(await guest.call('GET', `/accounts/${guest.id}`)).ok()
      await sleep(Number(refusal.header('retry-after')) * 1_000 + 200)
      ;(await call()).ok()
    },
  )

  test('an account has one budget, from any client address', ['per account'], async (outer) => {
    const world = await limited(outer, '127.99.2.1')
    const [ann, bob, other] = await Promise.all([world.guest(), world.guest(), world.guest()])
    const fresh = '127.99.2.250'
    // Ten in ten minutes. Nothing is reset: the account of the path is another one.
    const reset = (account: Account, from: string) =>
      account.call('POST', `/accounts/${other.id}/resettoken`, { from })
    let answer: Answer | undefined
    // Windows follow the clock: one may end between the refusal and the next call.
    for (let attempt = 0; attempt < 3 && answer?.code !== 429; attempt++) {
      const { refusal } = await untilRefused((number) => reset(ann, `127.99.2.${2 + (number % 40)}`))
      assertRefusal(refusal)
      answer = await reset(ann, fresh)
    }
    answer?.refused('error-rateLimit')
    ;(await reset(bob, fresh)).refused('error-accountId')
  })

  test('guessing tokens, codes and passwords has a small budget', ['guesses'], async (outer) => {
    const tokens = await limited(outer, '127.99.3.1')
    assertGuessRefusal(
      await untilRefused((n) => tokens.call('GET', '/accounts/getid', { token: `guess-${n}` })),
    )
    const codes = await limited(outer, '127.99.3.2')
    const reader = await codes.premium()
    assertGuessRefusal(await untilRefused((n) => reader.read(`Guess${String(n).padStart(3, '0')}`)))
    const passwords = await limited(outer, '127.99.3.3')
    const [ann, visitor] = [await passwords.premium(), await passwords.premium()]
    const folder = await ann.folder({ public: true })
    ;(await ann.update(folder.id, 'password', 'the right one')).ok()
    assertGuessRefusal(await untilRefused((n) => visitor.read(folder.id, { password: sha256(`guess ${n}`) })))
  })

  test('X-Forwarded-For has no effect', ['X-Forwarded-For'], async (outer) => {
    const world = await limited(outer, '127.99.4.1')
    const { refusal } = await untilRefused((n) =>
      world.call('GET', '/accounts/getid', {
        token: 'x',
        headers: { 'x-forwarded-for': `198.51.100.${n % 250}` },
      }),
    )
    refusal.refused('error-rateLimit')
  })

  test(
    'a client that continues is banned from everything, until the ban is lifted',
    ['ban', 'operator · POST /admin/accounts/<id>'],
    async (outer) => {
      const from = '127.99.5.1'
      const world = await limited(outer, from)
      const guest = await world.guest()
      ;(await guest.call('GET', `/accounts/${guest.id}`)).ok()
      const banned = async () => (await guest.call('GET', `/accounts/${guest.id}`)).code === 429
      for (let calls = 0; calls < 8_000 && !(await banned()); calls += 100)
        await Promise.all(
          Array.from({ length: 100 }, () => world.call('GET', '/accounts/getid', { token: 'x' })),
        )
      const refusal = await guest.call('GET', `/accounts/${guest.id}`)
      refusal.refused('error-rateLimit')
      assert.match(refusal.header('retry-after'), /^[1-9]\d*$/)
      ;(await world.request('POST', `${world.uploadHost()}/uploadfile`)).refused('error-rateLimit')
      ;(await guest.call('GET', `/accounts/${guest.id}`, { from: '127.99.5.77' })).ok()
      const listed = await world.admin('GET', '/admin/bans')
      assert.ok(listed.text.includes(from), listed.text)
      const lifted = await world.admin('DELETE', `/admin/bans/${from}`)
      assert.equal(lifted.code, 200)
      ;(await guest.call('GET', `/accounts/${guest.id}`)).ok()
    },
  )

  test('mails to one address are few', ['429', 'POST /accounts · error-email'], async (outer) => {
    const world = await limited(outer, '127.99.6.1')
    const email = 'often-asked@example.test'
    ;(await world.call('POST', '/accounts', { json: { email } })).ok()
    const answers: Answer[] = []
    for (let call = 0; call < 12; call++)
      answers.push(await world.call('POST', '/accounts', { json: { email }, from: `127.99.6.${2 + call}` }))
    for (const answer of answers) answer.refused('error-email', 'error-rateLimit')
    await world.mailTo(email, 2)
    await sleep(1_000)
    const mails = await mailsTo(world.hosts.outbox, email)
    assert.ok(mails.length < 10, `${mails.length} mails to one address within a second`)
  })

  test(
    'mails to the spellings of one mailbox are few, and so are those that one network causes',
    ['429', 'per account', 'POST /accounts · email'],
    async (outer) => {
      const world = await limited(outer, '127.99.7.1')
      const create = (email: string, from: string) =>
        world.call('POST', '/accounts', { json: { email }, from })
      const answers = await Promise.all(
        Array.from({ length: 30 }, (_, n) =>
          create(n % 2 ? `victim+${n}@often.test` : `VICTIM+x${n}@Often.Test`, `127.99.8.${n + 1}`),
        ),
      )
      const refused = answers.filter(({ code }) => code === 429)
      assert.ok(refused.length >= 27, `${30 - refused.length} accounts for one mailbox`)
      for (const answer of refused) {
        answer.refused('error-rateLimit')
        assert.match(answer.header('retry-after'), /^[1-9]\d*$/)
      }
      const mails = await mailsTo(world.hosts.outbox, '@often.test')
      assert.ok(mails.length <= 3, `${mails.length} mails to one mailbox`)
      // Dots distinguish mailboxes except at one provider; others are not delayed.
      ;(await create('vic.tim@often.test', '127.99.8.40')).ok()
      const [dots, plain] = ['a.n.n@gmail.com', 'ann+x@GoogleMail.com']
      for (const email of [dots, plain, `${'ann'}@gmail.com`]) (await create(email, '127.99.8.41')).ok()
      ;(await create('an.n@gmail.com', '127.99.8.42')).refused('error-rateLimit')
      const some = await Promise.all(
        Array.from({ length: 30 }, (_, n) => create(`someone-${n}@elsewhere.test`, '127.99.9.1')),
      )
      const made = some.filter(({ code }) => code === 200)
      assert.ok(made.length <= 20, `${made.length} mails caused by one address`)
      ;(await world.call('POST', '/accounts', { from: '127.99.9.1' })).ok()
    },
  )
})

function assertGuessRefusal({ refusal, calls }: { refusal: Answer; calls: number }): void {
  refusal.refused('error-rateLimit')
  assert.match(refusal.header('retry-after'), /^[1-9]\d*$/)
  assert.ok(calls <= 400, `${calls} guesses before the first refusal`)
}
