import { AccountsUnavailable } from '@holdfast/accounts'
import { nothingBlocked } from '@holdfast/moderation'
import t from 'tap'
import { white } from '../src/documents/schemas.ts'
import { sha256, world } from './world.ts'

t.test('a guest account is made at once, for any form of an empty body', async (t) => {
  const { ask } = world(t)
  for (const headers of [
    {},
    { 'content-type': 'application/json' },
    { 'content-type': 'application/x-www-form-urlencoded' },
  ]) {
    const made = await ask('POST', '/accounts', headers)
    t.match(made, { code: 200, status: 'ok', data: { tier: 'guest' } })
    const { id, rootFolder, token } = made.data
    const who = await ask('GET', '/accounts/getid', { token })
    t.same(who.data, { id, email: `${id}@guest.invalid`, tier: 'guest' })
    t.match(await ask('GET', `/accounts/getid?token=${token}`), { code: 200 })
    const details = await ask('GET', `/accounts/${id}`, { token })
    t.match(details.data, {
      id,
      tier: 'guest',
      premiumType: null,
      token,
      rootFolder,
      statsCurrent: {
        storage: 0,
        fileCount: 0,
        folderCount: 0,
        trafficDirectGenerated: 0,
        trafficWebDownloaded: 0,
      },
      limits: { storage: null, contents: 10_000, traffic: null },
      recycleBin: { enabled: false },
      subscriptionProvider: null,
      subscriptionEndDate: null,
      subscriptionLimitStorage: null,
    })
  }
  t.match(await ask('POST', '/accounts', { token: 'nonsense' }), { code: 200 }, 'tokens are ignored')
})

t.test('an address makes a standard account, once', async (t) => {
  const { ask, mails } = world(t)
  const made = await ask('POST', '/accounts', { body: { email: 'Ann@Example.org' } })
  t.match(made, { code: 200, data: { tier: 'standard' } })
  t.match(await ask('GET', '/accounts/getid', { token: made.data.token }), {
    data: { id: made.data.id, email: 'Ann@Example.org', tier: 'standard' },
  })
  t.same(mails, [{ email: 'Ann@Example.org', accountId: made.data.id }])
  const again = await ask('POST', '/accounts', { body: { email: 'ann@example.ORG' } })
  t.match(again, { code: 400, status: 'error-email' })
  t.same(Object.keys(again), Object.keys(made))
  t.equal(again.data, undefined)
  for (const email of ['', 'x', 'a b@c.de', 7, ['a@b.co'], 'a@b.co\r\nBcc: x@y.z'])
    t.match(await ask('POST', '/accounts', { body: { email } }), { code: 400, status: 'error-email' })
  t.match(await ask('POST', '/accounts', { body: { email: null } }), { data: { tier: 'guest' } })
})

t.test('a claim whose account was never made is completed', async (t) => {
  const { ask, keyring, lookups } = world(t)
  const claimed = keyring.ids.account('eu-par')
  await lookups.claim('email/ann@example.org', Buffer.from(claimed))
  t.match(await ask('POST', '/accounts', { body: { email: 'ann@example.org' } }), {
    code: 200,
    data: { id: claimed },
  })
})

t.test('with an Idempotency-Key a retry finds the same account', async (t) => {
  const { ask } = world(t)
  const key = { 'idempotency-key': '5a1b2c3d-0000-4000-8000-000000000001' }
  const first = await ask('POST', '/accounts', key)
  const again = await ask('POST', '/accounts', key)
  t.equal(first.status, 'ok')
  t.same(again.data, first.data)
  const withEmail = {
    body: { email: 'ann@example.org' },
    'idempotency-key': '5a1b2c3d-0000-4000-8000-000000000002',
  }
  const made = await ask('POST', '/accounts', withEmail)
  t.same((await ask('POST', '/accounts', withEmail)).data, made.data)
})

t.test('a reset token is invalid at once, and only for its own account', async (t) => {
  const { ask, guest, mails } = world(t)
  const made = await ask('POST', '/accounts', { body: { email: 'ann@example.org' } })
  const { id, token } = made.data
  const bob = await guest()
  t.match(await ask('POST', `/accounts/${bob.id}/resettoken`, { token }), {
    code: 403,
    status: 'error-accountId',
  })
  t.match(await ask('GET', `/accounts/${bob.id}`, { token }), { code: 403, status: 'error-accountId' })
  t.match(await ask('GET', '/accounts/x', { token }), { code: 403, status: 'error-accountId' })
  t.match(await ask('GET', '/accounts/x'), { code: 401, status: 'error-token' })
  t.same((await ask('POST', `/accounts/${id}/resettoken`, { token })).data, {})
  t.match(await ask('GET', '/accounts/getid', { token }), { code: 401, status: 'error-token' })
  t.match(await ask('GET', '/accounts/x', { token }), { code: 401, status: 'error-token' })
  t.equal(mails.length, 2)
})

t.test('a repeated reset with its key gets the answer of the first, and resets nothing more', async (t) => {
  const { ask, mails } = world(t)
  const { data } = await ask('POST', '/accounts', { body: { email: 'ann@example.org' } })
  const reset = () =>
    ask('POST', `/accounts/${data.id}/resettoken`, { token: data.token, 'idempotency-key': 'reset-1' })
  t.match(await reset(), { code: 200 })
  t.match(await reset(), { code: 200 })
  t.equal(mails.length, 2)
  t.match(
    await ask('POST', `/accounts/${data.id}/resettoken`, { token: data.token, 'idempotency-key': 'other' }),
    {
      code: 401,
    },
  )
})

t.test('wrong guesses are counted, right ones are not checked once the budget is spent', async (t) => {
  const second = { quota: 5, windowSeconds: 600 }
  const many = { quota: 10_000, windowSeconds: 600 }
  const { ask, guest } = world(t, {
    limits: {
      standard: many,
      endpoints: {},
      accounts: {},
      guesses: { token: second, code: second, password: second },
      excess: many,
    },
  })
  const premium = await guest('premium')
  for (let at = 0; at < 5; at++)
    t.match(await ask('GET', `/contents/AAAAAAA${at}`, { token: premium.token }), { code: 404 })
  const spent = await ask('GET', '/contents/AAAAAAA9', { token: premium.token })
  t.match(spent, { code: 429, status: 'error-rateLimit' })
  t.ok(Number(spent.headers['retry-after']) > 0)
  t.match(await ask('GET', `/contents/${premium.rootFolder}`, { token: premium.token }), { code: 200 })
  for (let at = 0; at < 5; at++)
    t.match(await ask('GET', '/accounts/getid', { token: 'wrong' }), { code: 401 })
  t.match(await ask('GET', '/accounts/getid', { token: 'wrong' }), { code: 429 })
  t.match(
    await ask('GET', '/accounts/getid', { token: premium.token }),
    { code: 200 },
    'a known token is accepted',
  )
})

t.test('a password is guessed at the folder above as well, and one request is one guess', async (t) => {
  const many = { quota: 10_000, windowSeconds: 600 }
  const { ask, guest, folder } = world(t, {
    limits: {
      standard: many,
      endpoints: {},
      accounts: {},
      guesses: { token: many, code: many, password: { quota: 4, windowSeconds: 600 } },
      excess: many,
    },
  })
  const owner = await guest()
  const { id: above } = await folder(owner, owner.rootFolder, { public: true })
  const { id: below } = await folder(owner, above)
  const locked = await ask('PUT', `/contents/${below}/update`, {
    token: owner.token,
    body: { attribute: 'password', attributeValue: 'geheim' },
  })
  t.equal(locked.code, 200)
  const visit = async (text: string, path = `/contents/${above}?maxdepth=3&`) =>
    (await ask('GET', `${path}password=${sha256(text)}`, { token: visitor.token })).code
  const visitor = await guest('premium')
  for (let at = 0; at < 10; at++) t.equal(await visit('geheim'), 200, 'a right one is no guess')
  t.equal(await visit('one'), 200)
  t.equal(await visit('two'), 200)
  const search = `/contents/search?contentId=${below}&searchedString=a&`
  t.equal(await visit('three', search), 401)
  t.equal(await visit('four', search), 401)
  t.equal(await visit('five', search), 429)
  t.equal(await visit('six'), 429)
})

t.test('an account has a budget of its own, that forged tokens cannot spend', async (t) => {
  const many = { quota: 10_000, windowSeconds: 600 }
  const { ask, guest } = world(t, {
    limits: {
      standard: many,
      endpoints: {},
      accounts: { getAccountId: { quota: 2, windowSeconds: 600 } },
      guesses: { token: many, code: many, password: many },
      excess: many,
    },
  })
  const ann = await guest()
  const forged = `${ann.token.slice(0, 40)}${'A'.repeat(24)}`
  for (let at = 0; at < 5; at++)
    t.match(await ask('GET', '/accounts/getid', { token: forged }), { code: 401 })
  t.match(await ask('GET', '/accounts/getid', { token: ann.token }), { code: 200 })
  t.match(await ask('GET', '/accounts/getid', { token: ann.token }), { code: 200 })
  const over = await ask('GET', '/accounts/getid', { token: ann.token })
  t.match(over, {
    code: 429,
    status: 'error-rateLimit',
    headers: { 'ratelimit-policy': '"account";q=2;w=600' },
  })
})

t.test('a full account refuses what does not fit', async (t) => {
  const { ask, guest, folder } = world(t, { contentsMax: 2 })
  const ann = await guest()
  await folder(ann, ann.rootFolder)
  await folder(ann, ann.rootFolder)
  t.match(
    await ask('POST', '/contents/createFolder', {
      token: ann.token,
      body: { parentFolderId: ann.rootFolder },
    }),
    { code: 403, status: 'error-limits' },
  )
})

t.test('unavailable accounts are 503, overloaded ones 429, and neither reveals anything', async (t) => {
  for (const [overloaded, code, status] of [
    [false, 503, 'error-unavailable'],
    [true, 429, 'error-rateLimit'],
  ] as const) {
    const { ask } = world(t, {
      accounts: {
        call: async () => {
          throw new AccountsUnavailable('host 10.0.0.7 is silent', { overloaded })
        },
      },
    })
    const answer = await ask('POST', '/accounts')
    t.match(answer, { code, status })
    t.same(answer.data, undefined)
    t.ok(Number(answer.headers['retry-after']) > 0)
  }
})

t.test('operations that need no token', async (t) => {
  const { app, ask } = world(t)
  t.match((await ask('GET', '/status')).data, { region: 'eu-par' })
  t.same((await ask('GET', '/servers')).data, { servers: [{ name: 'upload-eu-par', zone: 'eu' }] })
  t.match((await ask('GET', '/regions')).data.regions[0], {
    code: 'eu-par',
    uploadUrl: 'http://upload-eu-par.example',
  })
  const document = (await app.inject('/openapi.json')).json()
  const listed = Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
    ['get', 'post', 'put', 'delete']
      .filter((method) => method in methods)
      .map((method) => `${method} ${path}`),
  )
  for (const endpoint of [
    'post /uploadfile',
    'post /contents/createFolder',
    'get /contents/{contentId}',
    'put /contents/{contentId}/update',
    'delete /contents',
    'post /contents/copy',
    'put /contents/move',
    'post /contents/import',
    'get /contents/search',
    'post /contents/{contentId}/directlinks',
    'put /contents/{contentId}/directlinks/{directLinkId}',
    'delete /contents/{contentId}/directlinks/{directLinkId}',
    'post /accounts',
    'get /accounts/getid',
    'get /accounts/{accountId}',
    'post /accounts/{accountId}/resettoken',
  ])
    t.ok(listed.includes(endpoint), endpoint)
  const page = await app.inject('/docs')
  t.match(page.headers['content-type'], 'text/html')
  t.notMatch(page.body, /src=|https?:\/\/(?!json)/)
})

t.test('methods and slashes of the real routes', async (t) => {
  const { app, ask } = world(t)
  const allow = async (method: string, url: string) => {
    const answer = await ask(method, url)
    return `${answer.code} ${answer.status} ${answer.headers.allow}`
  }
  t.equal(await allow('GET', '/contents'), '405 error-method DELETE')
  t.equal(await allow('GET', '/contents/copy'), '405 error-method POST')
  t.equal(await allow('POST', '/contents/search'), '405 error-method GET, HEAD')
  t.equal(await allow('GET', '/contents/createFolder/'), '405 error-method POST')
  t.equal(await allow('PATCH', '/accounts'), '405 error-method POST')
  t.equal(await allow('GET', '/accounts'), '405 error-method POST')
  t.equal(await allow('DELETE', '/accounts/getid'), '405 error-method GET, HEAD')
  t.equal(await allow('GET', '/uploadfile'), '404 error-notFound undefined')
  t.equal((await app.inject({ method: 'HEAD', url: '/status/' })).statusCode, 200)
  t.equal((await app.inject({ method: 'HEAD', url: '/accounts/getid' })).statusCode, 401)
})

t.test('the OpenAPI document requires what the service requires', async (t) => {
  const { app } = world(t)
  const { paths } = (await app.inject('/openapi.json')).json()
  const bodyOf = (path: string, method: string) => paths[path][method].requestBody
  t.equal(bodyOf('/accounts', 'post').required, false, 'no body makes a guest')
  t.equal(bodyOf('/contents', 'delete').required, true)
  const property = (path: string, method: string, name: string) =>
    bodyOf(path, method).content['application/json'].schema.properties[name]
  const id = '3f2b8c54-9d1e-4f6a-8b7c-0123456789ab'
  const { pattern, minLength } = property('/contents', 'delete', 'contentsId')
  t.equal(minLength, 36)
  for (const good of [id, `${id},${id.toUpperCase()}`, ` ${id} ,\t${id}\ufeff`])
    t.match(good, new RegExp(pattern))
  for (const bad of ['', 'x', `${id},`, `${id};${id}`, 'Zz9Zz9Zz']) t.notMatch(bad, new RegExp(pattern))
  const [name, none] = property('/contents/createFolder', 'post', 'folderName').anyOf
  t.match(name, { minLength: 1, maxLength: 255 })
  t.strictSame(none, { type: 'null' }, 'null counts as omitted')
  for (const bad of ['.', '..', 'a/b', 'a\u0000']) t.notMatch(bad, new RegExp(name.pattern))
  for (const good of ['...', '.a', 'ä b', '..a']) t.match(good, new RegExp(name.pattern))
  const [email] = property('/accounts', 'post', 'email').anyOf
  for (const good of ['a@b.co', 'a.b+c@d-e.example.org', ' a@b.co\n'])
    t.match(good, new RegExp(email.pattern))
  for (const bad of [
    '.a@b.co',
    'a..b@c.de',
    'a.@b.co',
    'x@guest.INVALID',
    'x@guest.invalid ',
    'a@b',
    'a b@c.de',
  ])
    t.notMatch(bad, new RegExp(email.pattern))
  t.equal(property('/contents/{contentId}/directlinks', 'post', 'auth').anyOf[0].items.maxLength, 512)
  const linkAt = '/contents/{contentId}/directlinks'
  const address = new RegExp(property(linkAt, 'post', 'sourceIpsAllowed').anyOf[0].items.pattern)
  for (const good of ['192.0.2.0/24', '2001:db8::1', '2001:db8::/32', '::1', '1:2:3:4:5:6::8'])
    t.match(good, address)
  for (const bad of ['1.2.3', '2001:db8', '1::2::3', '1:2:3:4:5:6:7::8', ':::']) t.notMatch(bad, address)
  const change = bodyOf('/contents/{contentId}/update', 'put').content['application/json'].schema.oneOf
  const expiry = change.find(({ title }: { title: string }) => title === 'expiry').properties.attributeValue
  for (const [time] of [property(linkAt, 'post', 'expireTime').anyOf, expiry.anyOf])
    t.match(time, { minimum: 0, maximum: 253_402_300_799, examples: [4_102_444_800] }, 'any time')
  for (const methods of Object.values(paths))
    for (const [method, { operationId, security = [] }] of Object.entries(
      methods as Record<string, { operationId: string; security?: object[] }>,
    )) {
      const byQuery = security.some((one) => 'queryToken' in one)
      if (byQuery) t.equal(method, 'get', `${operationId}: ?token= counts on GET alone`)
    }
  const modTime = property('/contents/createFolder', 'post', 'modTime').anyOf
  t.match(modTime[0], { type: 'integer', minimum: -62_167_219_200, maximum: 253_402_300_799 })
  const upload = bodyOf('/uploadfile', 'post').content['multipart/form-data'].schema.properties
  const changed = change.find(({ title }: { title: string }) => title === 'modTime').properties.attributeValue
  const [{ anyOf: inForm }] = upload.modTime.anyOf
  const anyExpiry = new RegExp(expiry.anyOf[1].pattern)
  for (const [, { pattern }] of [modTime, changed.anyOf, inForm]) {
    for (const good of ['-62167219200', '253402300799', '007']) t.match(good, new RegExp(pattern))
    for (const bad of ['-62167219201', '253402300800', '1.5']) t.notMatch(bad, new RegExp(pattern))
  }
  t.match('253402300799', anyExpiry, 'a decimal text is an integer')
  const fields = { folderId: id, token: 'x'.repeat(64), modTime: '7' }
  for (const [field, value] of Object.entries(fields)) {
    const [one] = upload[field].anyOf
    const form = new RegExp((one.anyOf?.[1] ?? one).pattern)
    for (const good of ['', ' ', value, ` ${value}\r\n`]) t.match(good, form, field)
    for (const bad of [`${value},`, `${value} ${value}`]) t.notMatch(bad, form, field)
  }
  const tags = change.find(({ title }: { title: string }) => title === 'tags').properties.attributeValue
  const list = new RegExp(tags.anyOf[0].pattern, 'u')
  for (const good of ['a', 'ä-1,,b_', ' a , b ', 'x'.repeat(25), ',', `${'a,'.repeat(50)} ,`])
    t.match(good, list)
  for (const bad of ['a b', 'x'.repeat(26), 'a;b', 'a,'.repeat(51)]) t.notMatch(bad, list)
  for (const [path, methods] of Object.entries(paths))
    for (const [method, { responses }] of Object.entries(methods as Record<string, { responses: object }>)) {
      if (method === 'servers') continue
      t.notOk('default' in responses, `${method} ${path} names each code`)
      t.match(Object.keys(responses), ['200', '400'], `${method} ${path}`)
    }
  const refused = (path: string, method: string, code: number) =>
    paths[path][method].responses[code].content['application/json'].schema.properties.status.enum
  t.strictSame(refused('/contents/{contentId}', 'get', 401), [
    'error-notOwner',
    'error-notPremium',
    'error-passwordRequired',
    'error-passwordWrong',
    'error-token',
  ])
  for (const path of Object.keys(paths)) t.notMatch(path, /^\/(d|profile|assets)\b|^\/$/)
})

t.test('the document and the service agree about white space', async (t) => {
  for (let code = 0; code <= 0xffff; code++) {
    const character = String.fromCharCode(code)
    if (new RegExp(`^${white}$`).test(character) !== (character.trim() === '')) t.fail(code.toString(16))
  }
})

t.test('closed sign-up makes no accounts, and a known address still gets its link', async (t) => {
  const { ask, command, keyring, lookups, mails } = world(t, {
    settings: { signUp: { mode: 'closed', domains: [] } },
  })
  const accountId = keyring.ids.account('eu-par')
  const email = 'ann@example.org'
  await lookups.claim(`email/${email}`, Buffer.from(accountId))
  await command(accountId, { $case: 'createAccount', value: { tokenKeyId: 1, email, isNewId: false } })
  const mail = { email, accountId }
  t.same(mails, [mail])
  const refused = { code: 403, status: 'error-forbidden' }
  t.match(await ask('POST', '/accounts'), refused)
  t.match(await ask('POST', '/accounts', { body: { email: 'bob@example.org' } }), refused)
  t.same(mails, [mail])
  t.equal(await lookups.get('email/bob@example.org'), undefined)
  t.match(await ask('POST', '/accounts', { body: { email: 'Ann@example.org' } }), refused)
  t.same(mails, [mail, mail])
})

t.test('where accounts are by invitation, an invited address makes one, in time', async (t) => {
  const signUp = { mode: 'invite' as const, domains: ['example.org', 'example.com'] }
  const { ask, clock, keyring, mails } = world(t, {
    settings: { signUp },
    blocked: { ...nothingBlocked, blocksInvitation: (email) => /^eve@/i.test(email) },
  })
  const inDays = (days: number) => Math.floor(clock.now() / 1000) + days * 86_400
  const email = 'Ann@example.org'
  const invitation = keyring.invitations.of('ann@example.org', inDays(1))
  const signsUp = (body: object) => ask('POST', '/accounts', { body })
  const refused = { code: 403, status: 'error-forbidden' }
  t.match(await signsUp({}), refused)
  t.match(await signsUp({ email }), refused)
  t.match(await signsUp({ email: 'bob@example.org', invitation }), refused, 'of another address')
  t.match(await signsUp({ email, invitation: `1${invitation}` }), refused, 'of another time')
  t.match(await signsUp({ email, invitation: 'x' }), refused)
  t.match(await signsUp({ email, invitation: keyring.invitations.of(email, inDays(0)) }), refused, 'too late')
  const elsewhere = 'ann@mail.example.org'
  const invitedElsewhere = keyring.invitations.of(elsewhere, inDays(1))
  t.match(await signsUp({ email: elsewhere, invitation: invitedElsewhere }), refused, 'of another domain')
  t.same(mails, [])
  const ann = (await signsUp({ email, invitation })).data
  t.match(ann, { tier: 'standard' })
  t.match(await signsUp({ email, invitation }), { code: 400, status: 'error-email' }, 'once')
  const withdrawn = keyring.invitations.of('eve@example.org', inDays(1))
  t.match(await signsUp({ email: 'Eve@example.org', invitation: withdrawn }), refused, 'withdrawn')

  const earliest = inDays(7)
  const invites = await ask('POST', `/accounts/${ann.id}/invitations`, {
    token: ann.token,
    body: { email: 'bob@example.com' },
  })
  const again = { token: ann.token, body: { email: 'eve@example.org' } }
  t.match(await ask('POST', `/accounts/${ann.id}/invitations`, again), { code: 451, status: 'error-blocked' })
  const elsewhereToo = { token: ann.token, body: { email: elsewhere } }
  t.match(await ask('POST', `/accounts/${ann.id}/invitations`, elsewhereToo), refused, 'it could not be used')
  t.match(invites, { code: 200, data: { email: 'bob@example.com' } })
  t.ok(invites.data.expireTime >= earliest && invites.data.expireTime <= inDays(7))
  const { link } = invites.data
  const sent = Object.fromEntries(new URLSearchParams(new URL(link).hash.slice(1)))
  t.match(await signsUp(sent), { code: 200, data: { tier: 'standard' } }, 'by what the link carries')
})
