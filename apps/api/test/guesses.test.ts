/** Budgets of guesses hold for any number of concurrent requests. */
import type { AccountId } from '@holdfast/kernel'
import t from 'tap'
import { sha256, world } from './world.ts'

const plenty = { quota: 10_000, windowSeconds: 3_600 }
const few = { quota: 5, windowSeconds: 3_600 }
const limits = {
  standard: plenty,
  endpoints: {},
  accounts: {},
  guesses: { token: few, code: few, password: few },
  excess: plenty,
}

const countOf = (answers: { status: string }[], status: string) =>
  answers.filter((answer) => answer.status === status).length

t.test(
  'of 60 concurrent wrong folder passwords the budget of 5 is checked; a right one after them is refused',
  async (t) => {
    const { ask, folder, guest } = world(t, { limits })
    const ann = await guest('premium')
    const locked = await folder(ann, ann.rootFolder, { public: true })
    await ask('PUT', `/contents/${locked.id}/update`, {
      token: ann.token,
      body: { attribute: 'password', attributeValue: 'open sesame' },
    })
    const passwords = [...Array.from({ length: 60 }, (_, at) => `wrong ${at}`), 'open sesame']
    const answers = await Promise.all(
      passwords.map((password) => ask('GET', `/web/contents/${locked.id}?password=${sha256(password)}`)),
    )
    t.equal(countOf(answers, 'error-passwordWrong'), 5)
    t.equal(countOf(answers, 'error-rateLimit'), 56)
    t.equal(answers.at(-1)?.status, 'error-rateLimit')
  },
)

t.test('concurrent right folder passwords of one network all open', async (t) => {
  const { ask, folder, guest } = world(t, { limits })
  const ann = await guest('premium')
  const locked = await folder(ann, ann.rootFolder, { public: true })
  await ask('PUT', `/contents/${locked.id}/update`, {
    token: ann.token,
    body: { attribute: 'password', attributeValue: 'open sesame' },
  })
  const answers = await Promise.all(
    Array.from({ length: 100 }, () =>
      ask('GET', `/web/contents/${locked.id}?password=${sha256('open sesame')}`),
    ),
  )
  t.equal(countOf(answers, 'ok'), 100)
})

t.test(
  'forged tokens use up the guesses of a network, and the right token after them is refused',
  async (t) => {
    const { ask, guest, keyring } = world(t, { limits })
    const ann = await guest()
    const forged = Array.from({ length: 300 }, (_, at) =>
      keyring.tokens.token(ann.id as AccountId, { keyId: 1, counter: 1_000 + at }),
    )
    const answers = await Promise.all(
      [...forged, ann.token].map((token) => ask('GET', '/accounts/getid', { token })),
    )
    t.equal(countOf(answers, 'error-token'), 5)
    t.equal(answers.at(-1)?.status, 'error-rateLimit')
  },
)

t.test('unknown share codes use up the guesses, and the right code after them is refused', async (t) => {
  const { ask, folder, guest } = world(t, { limits })
  const ann = await guest()
  const open = await folder(ann, ann.rootFolder, { public: true })
  const codes = [...Array.from({ length: 300 }, (_, at) => `Miss${String(at).padStart(4, '0')}`), open.code]
  const answers = await Promise.all(codes.map((code) => ask('GET', `/web/contents/${code}`)))
  t.equal(countOf(answers, 'error-notFound'), 5)
  t.equal(answers.at(-1)?.status, 'error-rateLimit')
})

t.test('a password that opens no locked folder of an archive is a guess', async (t) => {
  const { ask, folder, guest } = world(t, { limits })
  const ann = await guest()
  const open = await folder(ann, ann.rootFolder, { public: true })
  const locked = await folder(ann, open.id, { public: true })
  await ask('PUT', `/contents/${locked.id}/update`, {
    token: ann.token,
    body: { attribute: 'password', attributeValue: 'open sesame' },
  })
  const archive = (password: string) =>
    ask('POST', '/web/contents/archive', { body: { contentsId: open.id, password: sha256(password) } })
  for (let at = 0; at < 10; at++) t.equal((await archive('open sesame')).status, 'ok')
  for (let at = 0; at < 5; at++) t.equal((await archive(`wrong ${at}`)).status, 'ok')
  t.equal((await archive('open sesame')).status, 'error-rateLimit')
})
