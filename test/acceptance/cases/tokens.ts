import type { Answer } from '../answer.ts'
import { cases } from '../suite.ts'
import type { Account, World } from '../world.ts'

/** Every operation that requires a token, with otherwise valid parameters. */
async function operations(
  world: World,
  ann: Account,
): Promise<
  {
    name: string
    method: string
    path: string
    json?: Record<string, unknown>
    query?: Record<string, string>
  }[]
> {
  const folder = await ann.folder()
  const file = await ann.file({ in: folder.id })
  const link = await ann.link(file.id)
  void world
  return [
    {
      name: 'createFolder',
      method: 'POST',
      path: '/contents/createFolder',
      json: { parentFolderId: folder.id },
    },
    { name: 'read', method: 'GET', path: `/contents/${folder.id}` },
    {
      name: 'update',
      method: 'PUT',
      path: `/contents/${folder.id}/update`,
      json: { attribute: 'name', attributeValue: 'x' },
    },
    {
      name: 'copy',
      method: 'POST',
      path: '/contents/copy',
      json: { contentsId: file.id, folderId: ann.root },
    },
    {
      name: 'move',
      method: 'PUT',
      path: '/contents/move',
      json: { contentsId: file.id, folderId: ann.root },
    },
    { name: 'import', method: 'POST', path: '/contents/import', json: { contentsId: file.id } },
    {
      name: 'search',
      method: 'GET',
      path: '/contents/search',
      query: { contentId: folder.id, searchedString: 'file' },
    },
    { name: 'make link', method: 'POST', path: `/contents/${file.id}/directlinks`, json: {} },
    { name: 'change link', method: 'PUT', path: `/contents/${file.id}/directlinks/${link.id}`, json: {} },
    { name: 'remove link', method: 'DELETE', path: `/contents/${file.id}/directlinks/${link.id}` },
    { name: 'getid', method: 'GET', path: '/accounts/getid' },
    { name: 'details', method: 'GET', path: `/accounts/${ann.id}` },
    { name: 'delete', method: 'DELETE', path: '/contents', json: { contentsId: file.id } },
  ]
}

export const tokens = cases('tokens, in every request', (test) => {
  test(
    'every operation refuses a missing token and a bad one',
    [
      'wrong places',
      'POST /contents/createFolder · error-token',
      'GET /contents/{contentId} · error-token',
      'PUT /contents/{contentId}/update · error-token',
      'DELETE /contents · error-token',
      'POST /contents/copy · error-token',
      'PUT /contents/move · error-token',
      'POST /contents/import · error-token',
      'GET /contents/search · error-token',
      'POST /contents/{contentId}/directlinks · error-token',
      'PUT /contents/{contentId}/directlinks/{directLinkId} · error-token',
      'DELETE /contents/{contentId}/directlinks/{directLinkId} · error-token',
    ],
    async (world) => {
      const ann = await world.premium()
      for (const { method, path, json, query } of await operations(world, ann)) {
        const call = (more: { token?: string; headers?: Record<string, string> }) =>
          world.call(method, path, {
            ...(json === undefined ? {} : { json }),
            ...(query === undefined ? {} : { query }),
            ...more,
          })
        ;(await call({})).refused('error-token')
        ;(await call({ token: 'nonsense' })).refused('error-token')
        ;(await call({ headers: { authorization: `Basic ${ann.token}` } })).refused('error-token')
      }
    },
  )

  test(
    'every operation takes the header; GET the query; the others the body',
    ['header', 'query', 'body'],
    async (world) => {
      const ways: ((
        call: {
          method: string
          path: string
          json?: Record<string, unknown>
          query?: Record<string, string>
        },
        ann: Account,
      ) => Promise<Answer>)[] = [
        ({ method, path, json, query }, ann) =>
          world.call(method, path, {
            token: ann.token,
            ...(json === undefined ? {} : { json }),
            ...(query === undefined ? {} : { query }),
          }),
        ({ method, path, json, query }, ann) =>
          method === 'GET'
            ? world.call(method, path, { query: { ...query, token: ann.token } })
            : world.call(method, path, { json: { ...json, token: ann.token } }),
      ]
      for (const way of ways) {
        const ann = await world.premium()
        for (const operation of await operations(world, ann)) (await way(operation, ann)).ok()
      }
    },
  )

  test(
    'a token in the query counts for GET alone, one in the body for the others',
    ['wrong places'],
    async (world) => {
      const ann = await world.premium()
      for (const { method, path, json, query } of await operations(world, ann)) {
        const answer =
          method === 'GET'
            ? await world.call(method, path, {
                json: { token: ann.token },
                ...(query === undefined ? {} : { query }),
              })
            : await world.call(method, path, {
                query: { token: ann.token },
                ...(json === undefined ? {} : { json }),
              })
        answer.refused('error-token')
      }
    },
  )

  test('text that only resembles a token is refused', ['wrong places'], async (world) => {
    const [ann, bob] = await Promise.all([world.guest(), world.guest()])
    const middle = ann.token.length >> 1
    const other = ann.token[middle] === 'A' ? 'B' : 'A'
    const altered = [
      '',
      ' ',
      'x',
      ann.token.slice(0, -1),
      `${ann.token}A`,
      ann.token.slice(0, middle) + other + ann.token.slice(middle + 1),
      ann.token.slice(0, 20) + bob.token.slice(20),
      ann.token.split('').reverse().join(''),
      'A'.repeat(ann.token.length),
      'A'.repeat(5_000),
      ann.id,
      `${ann.token},${ann.token}`,
    ]
    for (const token of altered) {
      ;(await world.call('GET', '/accounts/getid', { token })).refused('error-token')
      ;(await world.call('GET', '/accounts/getid', { query: { token } })).refused('error-token')
    }
    for (const token of [...altered, 5, true, {}, [], [ann.token]])
      (
        await world.call('POST', '/contents/createFolder', { json: { parentFolderId: ann.root, token } })
      ).refused('error-token')
  })

  test('a token sent twice must be the same one', ['two different'], async (world) => {
    const [ann, bob] = await Promise.all([world.guest(), world.guest()])
    ;(await world.call('GET', '/accounts/getid', { token: ann.token, query: { token: ann.token } })).ok()
    ;(await world.call('GET', '/accounts/getid', { token: ann.token, query: { token: bob.token } })).refused(
      'error-token',
    )
    ;(
      await world.call('GET', '/accounts/getid', {
        query: [
          ['token', ann.token],
          ['token', bob.token],
        ],
      })
    ).refused('error-token')
    const json = { parentFolderId: ann.root, token: ann.token }
    ;(await world.call('POST', '/contents/createFolder', { token: ann.token, json })).ok()
    ;(await world.call('POST', '/contents/createFolder', { token: bob.token, json })).refused('error-token')
  })
})

export const orderOfChecks = cases('order of checks', (test) => {
  test('a malformed body is reported before a missing token', ['body before token'], async (world) => {
    for (const [method, path] of [
      ['POST', '/contents/createFolder'],
      ['DELETE', '/contents'],
      ['POST', '/contents/copy'],
      ['PUT', '/contents/move'],
    ] as const)
      (await world.call(method, path, { body: '{', type: 'application/json' })).refused('error-body')
  })

  test(
    'a missing token is reported before the tier and the parameters',
    ['token before tier'],
    async (world) => {
      ;(await world.call('POST', '/contents/copy', { json: {} })).refused('error-token')
      ;(await world.call('GET', '/contents/search')).refused('error-token')
      ;(await world.call('GET', '/contents/nonsense', { query: { page: 'x' } })).refused('error-token')
      ;(await world.call('POST', '/contents/createFolder', { json: { parentFolderId: 5 } })).refused(
        'error-token',
      )
      ;(await world.call('PUT', '/contents/nonsense/update', { json: {} })).refused('error-token')
      ;(await world.call('DELETE', '/contents', { json: { contentsId: 'x' }, token: 'nonsense' })).refused(
        'error-token',
      )
    },
  )

  test(
    'the tier is reported before the parameters, on every premium operation',
    [
      'tier before parameters',
      'GET /contents/{contentId} · error-notPremium',
      'POST /contents/copy · error-notPremium',
      'PUT /contents/move · error-notPremium',
      'POST /contents/import · error-notPremium',
      'GET /contents/search · error-notPremium',
    ],
    async (world) => {
      for (const ann of [await world.guest(), await world.standard()]) {
        const folder = await ann.folder()
        const good = { contentsId: folder.id, folderId: ann.root }
        for (const json of [good, {}, { contentsId: 'x', folderId: 5 }]) {
          ;(await ann.call('POST', '/contents/copy', { json })).refused('error-notPremium')
          ;(await ann.call('PUT', '/contents/move', { json })).refused('error-notPremium')
          ;(await ann.call('POST', '/contents/import', { json })).refused('error-notPremium')
        }
        ;(await ann.read(folder.id)).refused('error-notPremium')
        ;(await ann.read(ann.root)).refused('error-notPremium')
        ;(await ann.read('nonsense', { page: 'x' })).refused('error-notPremium')
        ;(await ann.search(folder.id, 'x')).refused('error-notPremium')
        ;(await ann.call('GET', '/contents/search')).refused('error-notPremium')
      }
    },
  )

  test('parameters are reported before existence', ['parameters before existence'], async (world) => {
    const ann = await world.premium()
    const unknown = 'ffffffff-ffff-4fff-bfff-ffffffffffff'
    ;(await ann.read(unknown, { page: 0 })).refused('error-page')
    ;(await ann.update(unknown, 'name', '')).refused('error-name')
    ;(await ann.update(unknown, 'nonsense', 'x')).refused('error-attribute')
    ;(await ann.copy([unknown], 'x')).refused('error-folderId')
    ;(await ann.search(unknown, '')).refused('error-searchedString')
    ;(
      await ann.call('POST', '/contents/createFolder', {
        json: { parentFolderId: unknown, folderName: 'a/b' },
      })
    ).refused('error-folderName')
  })
})
