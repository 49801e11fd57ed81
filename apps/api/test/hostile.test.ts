/**
 * For any input the answer is the envelope with a status of the contract, and never an internal
 * fault.
 */
import fc from 'fast-check'
import t from 'tap'
import { world } from './world.ts'

const routes = [
  ['POST', '/contents/createFolder', ['parentFolderId', 'folderName', 'public', 'modTime']],
  ['PUT', '/contents/:id/update', ['attribute', 'attributeValue', 'deleteAfterExpiry']],
  ['DELETE', '/contents', ['contentsId']],
  ['POST', '/contents/copy', ['contentsId', 'folderId', 'password']],
  ['PUT', '/contents/move', ['contentsId', 'folderId']],
  ['POST', '/contents/import', ['contentsId', 'password']],
  [
    'POST',
    '/contents/:id/directlinks',
    ['expireTime', 'sourceIpsAllowed', 'domainsAllowed', 'domainsBlocked', 'auth'],
  ],
  ['PUT', '/contents/:id/directlinks/:id', ['expireTime', 'sourceIpsAllowed', 'auth']],
  ['DELETE', '/contents/:id/directlinks/:id', []],
  [
    'GET',
    '/contents/:id',
    [
      'password',
      'page',
      'pageSize',
      'sortField',
      'sortDirection',
      'contentFilter',
      'contentname',
      'maxdepth',
    ],
  ],
  ['GET', '/web/contents/:id', ['password', 'page', 'pageSize']],
  ['GET', '/web/contents/search', ['contentId', 'searchedString', 'createTimeFrom', 'page']],
  ['POST', '/web/contents/copy', ['contentsId', 'folderId']],
  ['PUT', '/web/contents/move', ['contentsId', 'folderId']],
  [
    'GET',
    '/contents/search',
    ['contentId', 'searchedString', 'createTimeFrom', 'createTimeTo', 'page', 'pageSize'],
  ],
  ['POST', '/accounts', ['email']],
  ['GET', '/accounts/:id', []],
  ['POST', '/recyclebin/restore', ['contentsId']],
  ['GET', '/download/web/:id/x', []],
  ['GET', '/servers', ['zone']],
] as const

t.test('random input is never a fault', async (t) => {
  const { app, guest, folder } = world(t)
  const ann = await guest('premium')
  const bob = await guest()
  const made = await folder(ann, ann.rootFolder, { public: true })
  const texts = fc.oneof(
    fc.constantFrom(
      made.id,
      made.code,
      ann.rootFolder,
      bob.rootFolder,
      `${made.id},${bob.rootFolder}`,
      '',
      'null',
      'Upload',
      'true',
    ),
    fc.constantFrom(
      'name',
      'tags',
      'password',
      'expiry',
      'public',
      'description',
      'modTime',
      '9'.repeat(15),
      '-1',
      '1e9',
    ),
    fc.constantFrom(
      '\ud800',
      '\0',
      '%00',
      '__proto__',
      'constructor',
      "'; DROP TABLE",
      '../..',
      '😀'.repeat(50),
    ),
    fc.uuid({ version: 4 }),
    fc.string({ unit: 'binary', maxLength: 20 }),
  )
  // Members that JSON may have, and that every object has.
  const inherited = ['toString', 'valueOf', 'constructor', 'hasOwnProperty', 'then', 'toJSON']
  const shadowing = fc.dictionary(fc.constantFrom(...inherited), fc.constantFrom(false, 1, 'text', null))
  const values = fc.oneof(
    { weight: 4, arbitrary: texts },
    fc.integer(),
    fc.double(),
    fc.boolean(),
    fc.constant(null),
    fc.array(texts, { maxLength: 4 }),
    fc.jsonValue({ maxDepth: 3 }),
    shadowing,
  )
  const request = fc.constantFrom(...routes).chain(([method, path, names]) =>
    fc.record({
      method: fc.constant(method),
      path: fc.array(texts, { minLength: 2, maxLength: 2 }).map((ids) => {
        let at = 0
        return path.replaceAll(':id', () => encodeURIComponent((ids[at++] ?? '').toWellFormed()) || '-')
      }),
      fields: fc.dictionary(fc.constantFrom(...names, '__proto__', 'x'), values),
      form: fc.boolean(),
    }),
  )
  await fc.assert(
    fc.asyncProperty(request, async ({ method, path, fields, form }) => {
      const encoded = new URLSearchParams(
        Object.entries(fields).map(([name, value]): [string, string] => [name, textOf(value)]),
      ).toString()
      const answer = await app.inject({
        method,
        url: method === 'GET' ? `${path}?${encoded}` : path,
        headers: {
          authorization: `Bearer ${ann.token}`,
          ...(form ? { 'content-type': 'application/x-www-form-urlencoded' } : {}),
        },
        ...(method === 'GET' ? {} : { payload: form ? encoded : fields }),
      })
      if (answer.statusCode === 302) return
      const body = answer.json()
      if (answer.statusCode >= 500)
        throw new Error(`${method} ${path} ${JSON.stringify(fields)}: ${answer.body}`)
      if (answer.statusCode === 200) {
        if (body.status !== 'ok') throw new Error(answer.body)
      } else if (!/^error-[A-Za-z]+$/.test(body.status) || Object.keys(body).length !== 1) {
        throw new Error(`${method} ${path}: ${answer.body}`)
      }
    }),
    { numRuns: 700, interruptAfterTimeLimit: 12_000 },
  )
  t.equal((await app.inject('/status')).statusCode, 200)
})

t.test('malformed bodies and odd queries', async (t) => {
  const { app, guest } = world(t)
  const ann = await guest('premium')
  const post = async (payload: string | Buffer, type = 'application/json') => {
    const answer = await app.inject({
      method: 'POST',
      url: '/contents/createFolder',
      payload,
      headers: { 'content-type': type, authorization: `Bearer ${ann.token}` },
    })
    return `${answer.statusCode} ${answer.json().status}`
  }
  t.equal(await post('{"parentFolderId":'), '400 error-body')
  t.equal(await post('[]'), '400 error-body')
  t.equal(await post('['.repeat(250_000)), '400 error-body')
  t.equal(await post(`{"a":${'['.repeat(31)}${']'.repeat(31)}}`), '400 error-parentFolderId')
  t.equal(await post(`{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`), '400 error-body')
  t.equal(await post(`{"folderName":"${'x'.repeat(256 * 1024)}"}`), '413 error-bodySize')
  t.equal(await post('{"parentFolderId":"x"}', 'application/xml'), '400 error-body')
  t.equal(await post('{"__proto__":{"parentFolderId":"x"}}'), '400 error-parentFolderId')
  t.equal(await post(`{"parentFolderId":"${ann.rootFolder}","folderName":"\\ud800"}`), '400 error-folderName')
  t.equal(
    await post(`{"parentFolderId":"${ann.rootFolder}","parentFolderId":"${ann.rootFolder}"}`),
    '400 error-parentFolderId',
  )
  const get = async (query: string) => {
    const answer = await app.inject({ url: `/contents/${ann.rootFolder}?${query}` })
    return `${answer.statusCode} ${answer.json().status}`
  }
  t.equal(await get(`token=${ann.token}`), '200 ok')
  t.equal(await get(`token=${ann.token}&token=${ann.token}`), '401 error-token')
  t.equal(await get(`token=${ann.token}&contentFilter=%zz%`), '200 ok')
  t.equal(await get(`token=${ann.token}&contentFilter=a&contentFilter=b`), '400 error-contentFilter')
  t.equal(await get(`token=${ann.token}&contentFilter[]=b`), '200 ok')
  t.equal(await get(`token=${ann.token}&${'a=1&'.repeat(3000)}`), '200 ok')
})

t.test('the answer does not reveal whether the guess existed', async (t) => {
  const { ask, guest } = world(t)
  const premium = await guest('premium')
  const unknown = await Promise.all(
    ['AAAAAAAA', 'zzzzzz', '3f2b8c54-9d1e-4f6a-8b7c-0123456789ab'].map((id) =>
      ask('GET', `/contents/${id}`, { token: premium.token }),
    ),
  )
  for (const answer of unknown) t.match(answer, { code: 404, status: 'error-notFound' })
})

/** An object may have a member `toString` that is no function. */
function textOf(value: unknown): string {
  try {
    return String(value)
  } catch {
    return JSON.stringify(value)
  }
}
