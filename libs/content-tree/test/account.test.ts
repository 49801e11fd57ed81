/** Accounts: how they begin, their tokens, tiers and sign-in mails. */
import t from 'tap'
import { holds, operator, system, visitor, World } from './world.ts'

t.test('an account is created once, as a guest or with an address', async (t) => {
  const world = new World()
  t.equal(world.status(world.bearer(), { getAccount: {} }), 'error-token', 'before')
  t.equal(world.status(visitor, { readContent: { contentId: world.id } }), 'error-notFound', 'before')
  t.equal(world.status(system, { tick: {} }), 'error-notFound', 'before')
  t.notOk(world.state.exists)
  const { result } = world.ask(system, { createAccount: { tokenKeyId: 3 } })
  t.ok(world.state.exists)
  t.match(result, {
    $case: 'account',
    value: {
      id: world.id,
      email: `${world.id}@guest.invalid`,
      tier: 'guest',
      premiumType: undefined,
      storage: 0,
      fileCount: 0,
      folderCount: 0,
      tokenKeyId: 3,
      tokenCounter: 0,
      limitContents: 10_000,
    },
  })
  t.equal(world.status(system, { createAccount: { tokenKeyId: 3 } }), 'error-unavailable', 'another time')
  t.equal([...world.state.effects()].length, 0, 'a guest has no inbox')

  const other = new World({ account: 2 })
  other.ask(system, { createAccount: { tokenKeyId: 1, email: 'Ann@Example.org' } })
  t.match(other.account(), { tier: 'standard', email: 'Ann@Example.org' })
  t.match(
    [...other.state.effects()],
    [
      {
        effect: { $case: 'signInMail', value: { email: 'Ann@Example.org', tokenKeyId: 1, tokenCounter: 0 } },
      },
    ],
  )
})

t.test('the token is checked before the tier, the tier before everything else', async (t) => {
  const world = new World()
  world.create()
  const premium = { tierNeeded: 'premium' }
  const nothing = { readContent: { contentId: 'no id' } }
  t.equal(world.status(world.bearer(1), nothing, premium), 'error-token')
  t.equal(world.status(world.bearer(0, 2), nothing, premium), 'error-token')
  t.equal(world.status(world.bearer(), nothing, premium), 'error-notPremium')
  t.equal(world.status(world.bearer(), { authenticate: {} }, premium), 'error-notPremium')
  t.equal(world.status(world.bearer(), { authenticate: {} }), 'ok')
  t.equal(world.status(visitor, { authenticate: {} }), 'error-token')
  world.ask(operator, { setAccount: { tier: 'premium' } })
  t.equal(world.status(world.bearer(), nothing, premium), 'error-notFound')
})

t.test('the operator may open reading and search to every tier, and nothing else', async (t) => {
  const world = new World({ openListing: true })
  const root = world.create()
  const premium = { tierNeeded: 'premium' }
  t.equal(
    world.status(
      world.bearer(),
      { readContent: { contentId: root, page: 1, pageSize: 10, maxDepth: 1 } },
      premium,
    ),
    'ok',
  )
  t.equal(
    world.status(
      world.bearer(),
      { searchContents: { contentId: root, searchedString: 'x', page: 1, pageSize: 10 } },
      premium,
    ),
    'ok',
  )
  t.equal(
    world.status(world.bearer(), { moveContents: { contentIds: [root], folderId: root } }, premium),
    'error-notPremium',
  )
})

t.test('a reset ends the old token at once and mails the new one', async (t) => {
  const world = new World()
  world.create({ email: 'ann@example.org' })
  world.settle()
  const requestId = world.requestId()
  t.equal(world.status(world.bearer(), { resetToken: { tokenKeyId: 2 } }, { requestId }), 'ok')
  t.equal(world.status(world.bearer(0, 1), { authenticate: {} }), 'error-token')
  t.equal(world.status(world.bearer(1, 2), { authenticate: {} }), 'ok')
  t.match(
    [...world.state.effects()],
    [{ effect: { $case: 'signInMail', value: { tokenKeyId: 2, tokenCounter: 1 } } }],
  )
  t.equal(
    world.status(world.bearer(), { resetToken: { tokenKeyId: 2 } }, { requestId }),
    'ok',
    'the same request again',
  )
  t.equal(world.account().tokenCounter, 1, 'counts once')
  t.equal(
    world.status(world.bearer(), { resetToken: { tokenKeyId: 2 } }),
    'error-token',
    'a new one with the old token',
  )
  t.equal(world.status(visitor, { resetToken: { tokenKeyId: 2 } }), 'error-notOwner')
})

t.test('a confirmed address replaces the token once, unless its owner keeps it', async (t) => {
  const world = new World()
  world.create({ email: 'ann@example.org' })
  world.settle()
  t.equal(world.account().emailConfirmed, false)
  t.equal(world.status(visitor, { confirmEmail: { tokenKeyId: 2 } }), 'error-notOwner')
  const requestId = world.requestId()
  const first = world.ask(world.bearer(), { confirmEmail: { tokenKeyId: 2 } }, { requestId })
  t.match(first.result, { value: { emailConfirmed: true, tokenCounter: 1, tokenKeyId: 2 } })
  t.equal(world.status(world.bearer(0, 1), { authenticate: {} }), 'error-token', 'the answered one is dead')
  t.match(
    [...world.state.effects()],
    [{ effect: { $case: 'signInMail', value: { tokenKeyId: 2, tokenCounter: 1 } } }],
  )
  const again = world.ask(world.bearer(), { confirmEmail: { tokenKeyId: 2 } }, { requestId })
  t.strictSame(again.result, first.result, 'the same request again')
  t.equal(world.status(world.bearer(), { confirmEmail: { tokenKeyId: 2 } }), 'error-token')
  const later = world.ask(world.bearer(1, 2), { confirmEmail: { tokenKeyId: 3 } })
  t.equal(later.change, undefined, 'a confirmed address stays so and the token too')
  t.match(later.result, { value: { emailConfirmed: true, tokenCounter: 1, tokenKeyId: 2 } })

  const kept = new World({ account: 2 })
  kept.create({ email: 'bob@example.org' })
  kept.ask(kept.bearer(), { confirmEmail: { tokenKeyId: 2, keepToken: true } })
  t.match(kept.account(), { emailConfirmed: true, tokenCounter: 0, tokenKeyId: 1 })
  t.ok(holds(kept), 'replay and checkpoint give the same state')

  const guest = new World({ account: 3 })
  guest.create()
  t.equal(guest.status(guest.bearer(), { confirmEmail: { tokenKeyId: 2 } }), 'error-email')
  t.ok(holds(world), 'replay and checkpoint give the same state')
})

t.test('the operator sets tier, limits and bin; the owner only the bin', async (t) => {
  const world = new World()
  world.create()
  world.ask(operator, { setAccount: { tier: 'premium' } })
  t.match(world.account(), { tier: 'premium', premiumType: 'subscription', limitContents: undefined })
  world.ask(operator, { setAccount: { premiumType: 'gift', limitContents: 5, limitStorage: 100 } })
  t.match(world.account(), { tier: 'premium', premiumType: 'gift', limitContents: 5, limitStorage: 100 })
  world.ask(operator, { setAccount: { clearLimits: true, limitStorage: 7 } })
  t.match(world.account(), { limitContents: undefined, limitStorage: 7 })
  world.ask(operator, { setAccount: { tier: 'standard' } })
  t.match(world.account(), { tier: 'standard', premiumType: undefined, limitContents: 10_000 })
  t.equal(world.status(operator, { setAccount: { tier: 'gold' } }), 'error-tier')
  t.equal(world.status(operator, { setAccount: { limitContents: -1 } }), 'error-contents')
  t.equal(world.status(world.bearer(), { setAccount: { tier: 'premium' } }), 'error-forbidden')
  t.equal(
    world.status(world.bearer(), { setAccount: { recycleBin: true, limitStorage: 1 } }),
    'error-forbidden',
  )
  t.equal(world.status(world.bearer(), { setAccount: { recycleBin: true } }), 'ok')
  t.equal(world.account().recycleBinEnabled, true)
  t.equal(world.status(visitor, { setAccount: { recycleBin: false } }), 'error-notOwner')
})

t.test('sign-in mails go to addresses that have an inbox', async (t) => {
  const guest = new World()
  guest.create()
  t.equal(guest.status(system, { sendSignIn: {} }), 'ok')
  t.equal([...guest.state.effects()].length, 0)
  const world = new World()
  world.create({ email: 'ann@example.org' })
  world.settle()
  t.equal(world.status(system, { sendSignIn: {} }), 'ok')
  t.equal([...world.state.effects()].length, 1)
  t.equal(world.status(visitor, { sendSignIn: {} }), 'error-notOwner')
})
