import assert from 'node:assert/strict'
import type { AccountDetails } from '../answer.ts'
import { cases } from '../suite.ts'
import { Account, eventually, newAddress, nowSeconds, uuid } from '../world.ts'

export const createAccounts = cases('POST /accounts', (test) => {
  test('an empty body makes a guest, with its token at once', ['success: guest'], async (world) => {
    const data = (await world.call('POST', '/accounts')).ok<AccountDetails>()
    assert.match(data.id, uuid)
    assert.match(data.rootFolder, uuid)
    assert.equal(data.tier, 'guest')
    assert.equal((await new Account(world, data).details()).id, data.id)
  })

  test('every account has its own id, root and token', ['success: guest'], async (world) => {
    const guests = await Promise.all([world.guest(), world.guest(), world.guest()])
    const values = guests.flatMap((guest) => [guest.id, guest.root, guest.token])
    assert.equal(new Set(values).size, 9)
  })

  test(
    'with an e-mail a standard account is made and its sign-in link mailed',
    ['success: standard', 'email', 'mail · outbox'],
    async (world) => {
      const email = newAddress()
      const data = (await world.call('POST', '/accounts', { json: { email } })).ok<AccountDetails>()
      assert.match(data.id, uuid)
      assert.match(data.rootFolder, uuid)
      assert.equal(data.tier, 'standard')
      const mail = await world.mailTo(email)
      assert.ok(mail.text.includes(`${world.hosts.web}/profile#token=${mail.token}`), mail.text)
      assert.equal(mail.token, data.token)
      const signedIn = await world.call('GET', '/accounts/getid', { token: mail.token })
      assert.deepEqual(signedIn.ok(), { id: data.id, email, tier: 'standard' })
    },
  )

  test('null and an absent e-mail both make a guest', ['email'], async (world) => {
    assert.equal(
      (await world.call('POST', '/accounts', { json: { email: null } })).ok<AccountDetails>().tier,
      'guest',
    )
    assert.equal((await world.call('POST', '/accounts', { json: {} })).ok<AccountDetails>().tier, 'guest')
  })

  test(
    'a known address is refused, in any case, and mailed its sign-in link',
    ['error-email', 'mail · outbox'],
    async (world) => {
      const email = newAddress()
      const first = await world.standard(email)
      await world.mailTo(email)
      const again = await world.call('POST', '/accounts', { json: { email: email.toUpperCase() } })
      again.refused('error-email')
      const mail = await world.mailTo(email, 2)
      assert.equal(mail.token, first.token, 'the second mail opens the same account')
    },
  )

  test(
    'an address is confirmed by the proof that only its mail has, and the token that others know ends',
    ['emailConfirmed', 'beyond the contract · POST /accounts/{accountId}/confirm', 'mail · outbox'],
    async (world) => {
      const email = newAddress()
      const asked = await world.standard(email)
      const mail = await world.mailTo(email)
      assert.equal(mail.token, asked.token)
      assert.equal((await asked.details()).emailConfirmed, false)
      const confirm = (json: object, headers: Record<string, string> = {}) =>
        asked.call('POST', `/accounts/${asked.id}/confirm`, { json, headers })
      // The creator of the account knows its token, and that is not enough.
      ;(await confirm({})).refused('error-mailed')
      ;(await confirm({ mailed: 'x'.repeat(22) })).refused('error-mailed')
      const stranger = await world.standard()
      const { proof } = await world.mailTo((await stranger.details()).email)
      ;(await confirm({ mailed: proof })).refused('error-mailed')
      assert.equal((await asked.details()).emailConfirmed, false)

      const headers = { 'idempotency-key': 'first-sign-in' }
      const done = (await confirm({ mailed: mail.proof }, headers)).ok<{
        emailConfirmed: boolean
        token: string
      }>()
      assert.equal(done.emailConfirmed, true)
      assert.notEqual(done.token, asked.token)
      ;(await asked.call('GET', '/accounts/getid')).refused('error-token')
      assert.deepEqual((await confirm({ mailed: mail.proof }, headers)).ok(), done, 'the same request again')
      ;(await confirm({ mailed: mail.proof })).refused('error-token')
      asked.token = done.token
      assert.equal((await asked.details()).emailConfirmed, true)
      const next = await world.mailTo(email, 2)
      assert.equal(next.token, done.token)
      // Later sign-ins change nothing.
      assert.deepEqual((await confirm({ mailed: next.proof })).ok(), done)
      assert.equal((await asked.details()).token, done.token)
    },
  )

  test(
    'an owner that says its program made the account keeps its token',
    ['emailConfirmed', 'beyond the contract · POST /accounts/{accountId}/confirm'],
    async (world) => {
      const email = newAddress()
      const made = await world.standard(email)
      const { proof } = await world.mailTo(email)
      const confirm = (json: object) => made.call('POST', `/accounts/${made.id}/confirm`, { json })
      ;(await confirm({ mailed: proof, keepToken: 'perhaps' })).refused('error-keepToken')
      assert.deepEqual((await confirm({ mailed: proof, keepToken: true })).ok(), {
        emailConfirmed: true,
        token: made.token,
      })
      assert.equal((await made.details()).emailConfirmed, true)
      const [guest, other] = [await world.guest(), await world.guest()]
      assert.equal((await guest.details()).emailConfirmed, false)
      ;(await guest.call('POST', `/accounts/${other.id}/confirm`, { json: { mailed: proof } })).refused(
        'error-accountId',
      )
    },
  )

  test(
    'a member invites an address, a guest does not',
    ['beyond the contract · POST /accounts/{accountId}/invitations'],
    async (world) => {
      const [member, guest] = [await world.standard(), await world.guest()]
      const invite = (by: typeof guest, json: object) =>
        by.call('POST', `/accounts/${by.id}/invitations`, { json })
      const email = newAddress()
      const made = (await invite(member, { email })).ok<{ link: string; invitation: string }>()
      assert.ok(made.link.includes(`#invitation=${made.invitation}&email=`))
      ;(await invite(member, { email: 'no-address' })).refused('error-email')
      ;(await invite(guest, { email })).refused('error-forbidden')
    },
  )

  test('two concurrent requests for one address get one account', ['error-email'], async (world) => {
    const email = newAddress()
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => world.call('POST', '/accounts', { json: { email } })),
    )
    assert.equal(answers.filter((answer) => answer.code === 200).length, 1)
    for (const answer of answers) if (answer.code !== 200) answer.refused('error-email')
  })

  test('an invalid address is refused', ['error-email'], async (world) => {
    const bad = [
      'no-address',
      '@example.test',
      'a@',
      'a b@example.test',
      'a@example.test\r\nBcc: b@example.test',
      'a@b@c.test',
      `${'x'.repeat(300)}@example.test`,
      5,
      true,
      [],
      {},
    ]
    for (const email of bad)
      (await world.call('POST', '/accounts', { json: { email } })).refused('error-email')
  })

  test('tokens are ignored, valid or not', ['tokens ignored'], async (world) => {
    const guest = await world.guest()
    for (const token of [guest.token, 'nonsense']) {
      const made = (await world.call('POST', '/accounts', { token })).ok<AccountDetails>()
      assert.notEqual(made.id, guest.id)
    }
    const made = await world.call('POST', '/accounts', { json: { token: guest.token } })
    assert.notEqual(made.ok<AccountDetails>().id, guest.id)
  })
})

export const getId = cases('GET /accounts/getid', (test) => {
  test('the token names its account, of every tier', ['success', 'any tier'], async (world) => {
    const guest = await world.guest()
    const email = newAddress()
    const standard = await world.standard(email)
    const premium = await world.premium()
    const read = async (account: Account) => (await account.call('GET', '/accounts/getid')).ok()
    assert.deepEqual(await read(guest), { id: guest.id, email: `${guest.id}@guest.invalid`, tier: 'guest' })
    assert.deepEqual(await read(standard), { id: standard.id, email, tier: 'standard' })
    assert.deepEqual(await read(premium), {
      id: premium.id,
      email: `${premium.id}@guest.invalid`,
      tier: 'premium',
    })
  })

  test('without a valid token there is no answer', ['error-token'], async (world) => {
    ;(await world.call('GET', '/accounts/getid')).refused('error-token')
    ;(await world.call('GET', '/accounts/getid', { token: 'nonsense' })).refused('error-token')
  })
})

export const accountDetails = cases('GET /accounts/{accountId}', (test) => {
  test('a guest reads its details', ['success', 'any tier', 'limits'], async (world) => {
    const guest = await world.guest()
    const details = await guest.details()
    assert.equal(details.id, guest.id)
    assert.equal(details.email, `${guest.id}@guest.invalid`)
    assert.equal(details.tier, 'guest')
    assert.equal(details.premiumType, null)
    assert.equal(details.token, guest.token)
    assert.equal(details.rootFolder, guest.root)
    assert.ok(Number.isInteger(details.createTime) && Math.abs(details.createTime - nowSeconds()) < 60)
    assert.deepEqual(details.statsCurrent, {
      storage: 0,
      fileCount: 0,
      folderCount: 0,
      trafficDirectGenerated: 0,
      trafficWebDownloaded: 0,
    })
    assert.equal(details.limits.contents, 10_000, 'the contract names the cap of free accounts')
    assert.equal(details.recycleBin.enabled, false)
    for (const name of [
      'subscriptionProvider',
      'subscriptionEndDate',
      'subscriptionLimitStorage',
      'subscriptionLimitDirectTraffic',
    ])
      assert.ok(name in details, `${name} is read by rclone`)
  })

  test('standard and premium accounts read theirs', ['success', 'any tier'], async (world) => {
    const email = newAddress()
    const standard = await (await world.standard(email)).details()
    assert.equal(standard.tier, 'standard')
    assert.equal(standard.email, email)
    assert.equal(standard.premiumType, null)
    assert.equal(standard.limits.contents, 10_000)
    const premium = await (await world.premium()).details()
    assert.equal(premium.tier, 'premium')
    assert.equal(premium.premiumType, 'subscription')
  })

  test('the limits in force are shown, also under the names that rclone reads', ['limits'], async (world) => {
    const guest = await world.guest()
    await guest.operator({ limits: { contents: 42, storage: 123_456_789 } })
    const details = await guest.details()
    assert.equal(details.limits.contents, 42)
    assert.equal(details.limits.storage, 123_456_789)
    assert.equal(details.subscriptionLimitStorage, 123_456_789)
  })

  test('statistics count files, folders without root and bin, and bytes', ['statsCurrent'], async (world) => {
    const guest = await world.guest()
    const folder = await guest.folder()
    await guest.file({ in: folder.id, content: '12345' })
    await guest.file({ in: folder.id, content: '12345' })
    const { statsCurrent } = await guest.details()
    assert.equal(statsCurrent.storage, 10, 'equal bytes count for every file')
    assert.equal(statsCurrent.fileCount, 2)
    assert.equal(statsCurrent.folderCount, 1)
  })

  test('an account reads only itself', ['error-accountId'], async (world) => {
    const [ann, bob] = await Promise.all([world.guest(), world.guest()])
    for (const id of [bob.id, ann.root, 'ffffffff-ffff-4fff-bfff-ffffffffffff', 'nonsense'])
      (await ann.call('GET', `/accounts/${id}`)).refused('error-accountId')
  })

  test('without a valid token there is no answer', ['error-token'], async (world) => {
    const guest = await world.guest()
    ;(await world.call('GET', `/accounts/${guest.id}`)).refused('error-token')
    ;(await world.call('GET', `/accounts/${guest.id}`, { token: 'nonsense' })).refused('error-token')
  })
})

export const resetToken = cases('POST /accounts/{accountId}/resettoken', (test) => {
  test(
    'the old token ends at once and the new one comes by mail',
    [
      'success',
      'mail',
      'mail · outbox',
      'tokens, in every request · reset',
      'states and transitions · token reset',
    ],
    async (world) => {
      const email = newAddress()
      const account = await world.standard(email)
      await world.mailTo(email)
      const folder = await account.folder()
      assert.deepEqual((await account.call('POST', `/accounts/${account.id}/resettoken`)).ok(), {})
      for (let call = 0; call < 4; call++)
        (await account.call('GET', '/accounts/getid')).refused('error-token')
      ;(await account.upload({ in: folder.id })).refused('error-token')
      const mail = await world.mailTo(email, 2)
      assert.notEqual(mail.token, account.token)
      assert.ok(mail.text.includes(`${world.hosts.web}/profile#token=${mail.token}`))
      account.token = mail.token
      const details = await account.details()
      assert.equal(details.token, mail.token)
      assert.equal((await account.update(folder.id, 'name', 'still mine')).ok().name, 'still mine')
    },
  )

  test('a second reset ends the token of the first', ['success', 'mail'], async (world) => {
    const email = newAddress()
    const account = await world.standard(email)
    const tokens = [account.token]
    for (let reset = 2; reset <= 3; reset++) {
      ;(await account.call('POST', `/accounts/${account.id}/resettoken`)).ok()
      account.token = (await world.mailTo(email, reset)).token
      tokens.push(account.token)
    }
    assert.equal(new Set(tokens).size, 3)
    for (const token of tokens.slice(0, 2))
      (await world.call('GET', '/accounts/getid', { token })).refused('error-token')
    ;(await world.call('GET', '/accounts/getid', { token: account.token })).ok()
  })

  test('a guest that resets its token has lost the account', ['guest'], async (world) => {
    const guest = await world.guest()
    ;(await guest.call('POST', `/accounts/${guest.id}/resettoken`)).ok()
    ;(await guest.call('GET', '/accounts/getid')).refused('error-token')
  })

  test('another account cannot be reset', ['error-accountId'], async (world) => {
    const [ann, bob] = await Promise.all([world.guest(), world.guest()])
    ;(await ann.call('POST', `/accounts/${bob.id}/resettoken`)).refused('error-accountId')
    ;(await bob.call('GET', '/accounts/getid')).ok()
  })

  test('without a valid token nothing is reset', ['error-token'], async (world) => {
    const guest = await world.guest()
    ;(await world.call('POST', `/accounts/${guest.id}/resettoken`)).refused('error-token')
    ;(await world.call('POST', `/accounts/${guest.id}/resettoken`, { token: 'nonsense' })).refused(
      'error-token',
    )
    ;(await guest.call('GET', '/accounts/getid')).ok()
  })

  test(
    "the owner's download links end with the token",
    ['success', 'downloads by link · owner by token'],
    async (world) => {
      const premium = await world.premium()
      const file = await premium.file({ content: 'mine alone' })
      const { link } = (await premium.read(file.id)).ok()
      assert.equal((await world.request('GET', link)).text, 'mine alone')
      ;(await premium.call('POST', `/accounts/${premium.id}/resettoken`)).ok()
      await eventually(async () => assert.equal((await world.request('GET', link)).code, 401), 1_000)
    },
  )
})
