import { createHmac } from 'node:crypto'
import { verifyCapability } from '@holdfast/access'
import { blank, DirectLink, FileColumns, Item } from '@holdfast/wire'
import t from 'tap'
import { ItemPresenter, presentPage } from '../src/index.ts'
import { JsonWriter } from '../src/items/json-writer.ts'

const capabilityKey = new Uint8Array(32).fill(7)
const present = new ItemPresenter({
  downloadUrl: 'https://dl.example',
  serversOf: () => ['store1', 'store2'],
  directUrlOf: undefined,
  capabilityKey,
})
const folderId = '3f2b8c54-9d1e-4f6a-8b7c-0123456789ab'
const now = 1_700_000_000

const file = (fields: Partial<Item> = {}): Item => ({
  ...blank(Item),
  id: '3f2b8c54-9d1e-4f6a-8b7c-000000000001',
  name: 'a b&c.txt',
  parentFolder: folderId,
  code: 'AbCd1234',
  createTime: 1,
  modTime: 2,
  canAccess: true,
  size: 3,
  mimetype: 'text/plain',
  downloads: 4,
  blob: { id: Buffer.alloc(48, 0xab), incarnation: Buffer.alloc(16), size: 3, crc32: 0, placementGroup: 0 },
  ...fields,
})
const folder = (fields: Partial<Item> = {}): Item => ({
  ...blank(Item),
  id: folderId,
  isFolder: true,
  name: 'f',
  canAccess: true,
  createTime: 1,
  modTime: 2,
  ...fields,
})

const capabilityIn = (link: unknown) => {
  const text = new URL(String(link)).searchParams.get('c')
  return text === null ? undefined : verifyCapability(capabilityKey, text, now)
}

t.test('a file has the fields of the contract that apply', async (t) => {
  const { link, ...shape } = present.item(file(), { nowSeconds: now })
  t.same(shape, {
    id: '3f2b8c54-9d1e-4f6a-8b7c-000000000001',
    type: 'file',
    name: 'a b&c.txt',
    parentFolder: folderId,
    code: 'AbCd1234',
    isOwner: false,
    canAccess: true,
    createTime: 1,
    modTime: 2,
    size: 3,
    md5: 'ab'.repeat(16),
    mimetype: 'text/plain',
    downloads: 4,
    servers: ['store1', 'store2'],
    serverSelected: 'store1',
  })
  t.ok(
    String(link).startsWith(
      'https://dl.example/download/3f2b8c54-9d1e-4f6a-8b7c-000000000001/a%20b%26c.txt?c=',
    ),
  )
  t.match(capabilityIn(link), { folderId, ends: now + 6 * 3600 })
})

t.test('children are keyed by id in the order of the account, one capability per folder', async (t) => {
  const children = [3, 1, 2].map((number) => file({ id: `3f2b8c54-9d1e-4f6a-8b7c-00000000000${number}` }))
  const shape = present.item(folder({ children, childrenCount: 3, passwordVersion: Buffer.alloc(16, 9) }), {
    nowSeconds: now,
  })
  const listed = shape.children as Record<string, { link: string }>
  t.same(
    Object.keys(listed),
    children.map(({ id }) => id),
  )
  const capabilities = new Set(Object.values(listed).map(({ link }) => new URL(link).searchParams.get('c')))
  t.equal(capabilities.size, 1)
  t.same(capabilityIn(Object.values(listed)[0]?.link)?.passwordVersion, Buffer.alloc(16, 9))
})

t.test("an owner's link ends with the token, and is useless without its counter", async (t) => {
  const owned = file({ isOwner: true })
  t.equal(capabilityIn(present.item(owned, { nowSeconds: now, tokenCounter: 5 }).link)?.ownerTokenCounter, 5)
  t.equal(capabilityIn(present.item(owned, { nowSeconds: now }).link), undefined)
})

t.test('a locked child shows only that it exists', async (t) => {
  const locked = folder({
    id: '3f2b8c54-9d1e-4f6a-8b7c-0000000000ff',
    code: 'AbCd1234',
    canAccess: false,
    password: true,
    passwordStatus: 'passwordRequired',
    description: 'secret',
    childrenCount: 9,
    parentFolder: folderId,
  })
  const shape = present.item(folder({ children: [locked] }), { nowSeconds: now })
  t.same((shape.children as Record<string, object>)[locked.id], {
    id: locked.id,
    type: 'folder',
    name: 'f',
    code: 'AbCd1234',
    isOwner: false,
    canAccess: false,
    password: true,
    passwordStatus: 'passwordRequired',
  })
})

t.test('direct links come as a map, secrets do not', async (t) => {
  const link = {
    id: 'd0000000-0000-4000-8000-000000000001',
    expireTime: 9,
    sourceIpsAllowed: ['10.0.0.0/8'],
    domainsAllowed: [],
    domainsBlocked: [],
    auth: [{ user: 'ann', salt: Buffer.from('salty'), hash: Buffer.from('hashed') }],
    createTime: 1,
  }
  const shape = present.item(folder({ isOwner: true, directLinks: [link], name: 'my/pics' }), {
    nowSeconds: now,
  })
  t.same(shape.directLinks, {
    [link.id]: {
      expireTime: 9,
      sourceIpsAllowed: ['10.0.0.0/8'],
      domainsAllowed: [],
      domainsBlocked: [],
      auth: ['ann'],
      isReqLink: false,
      directLink: `https://dl.example/direct/${folderId}/${link.id}/my%2Fpics.zip`,
    },
  })
})

t.test('pages add up', async (t) => {
  t.same(presentPage({ page: 1, pageSize: 10, totalCount: 0 }), {
    page: 1,
    pageSize: 10,
    totalCount: 0,
    totalPages: 0,
    hasNextPage: false,
  })
  t.match(presentPage({ page: 2, pageSize: 10, totalCount: 21 }), { totalPages: 3, hasNextPage: true })
  t.match(presentPage({ page: 3, pageSize: 10, totalCount: 21 }), { totalPages: 3, hasNextPage: false })
})

t.test('files in columns read like items, in their positions', async (t) => {
  const id = (number: number) => `3f2b8c54-9d1e-4f6a-8b7c-${number.toString(16).padStart(12, '0')}`
  const names = ['plain.txt', 'a b&c.txt', '"quoted"\\', 'é😀.jpg', "it's(1)!*~.x", '\u2028', '%2F']
  const files = names.map((name, n) =>
    file({
      id: id(n),
      name,
      // Old ones, and some that were made just now.
      createTime: n < 3 ? now - 1_000 * n - 100 : now - n,
      code: n === 0 ? undefined : n === 1 ? 'AbCd12' : `AbCd123${n}`,
      isOwner: true,
      modTime: -5,
      size: 2 ** 40 + n,
      downloads: n,
      mimetype: n % 2 === 0 ? 'text/plain' : 'a/"b"',
      blob: {
        id: Buffer.alloc(48, n),
        incarnation: Buffer.alloc(16),
        size: 3,
        crc32: 0,
        placementGroup: n % 3,
      },
    }),
  )
  const others = [folder({ id: id(100), isOwner: true }), file({ id: id(101), isOwner: true, tags: 'a,b' })]
  const present = new ItemPresenter({
    downloadUrl: 'https://dl.example/"x"',
    // A third node has what was made up to 5 seconds ago.
    serversOf: (group, createdMs) => [
      ...Array.from({ length: group }, (_, n) => `store${n}`),
      ...(createdMs <= (now - 5) * 1_000 ? ['far'] : []),
    ],
    directUrlOf: undefined,
    capabilityKey,
  })
  const view = { nowSeconds: now, tokenCounter: 3 }
  const written = (listed: Parameters<ItemPresenter['write']>[1]) => {
    const json = new JsonWriter()
    t.same([...present.write(json, listed, view)], [], 'a writer without slices is never full')
    return json.done().toString()
  }
  const text = (children: Item[], places: number[]) =>
    written({ item: folder({ isOwner: true, tags: 'c', children }), files: columnsOf(files), places })
  const asItems = (children: Item[]) =>
    JSON.stringify(present.item(folder({ isOwner: true, tags: 'c', children }), view).children)
  for (const [first, last] of [
    [0, 1],
    [0, 8],
    [3, 5],
    [7, 8],
  ] as const) {
    const all = [...files]
    all.splice(first, 0, others[0] as Item)
    all.splice(last, 0, others[1] as Item)
    const { children, tags } = JSON.parse(text(others, [first, last]))
    t.equal(JSON.stringify(children), asItems(all), `at ${first} and ${last}`)
    t.equal(tags, 'c')
  }
  t.equal(JSON.stringify(JSON.parse(text([], [])).children), asItems(files))
  const servers = Object.values(JSON.parse(text([], [])).children as Record<string, { servers: string[] }>)
  t.same(
    servers.map((shape) => shape.servers.includes('far')),
    files.map(({ createTime }) => createTime < now - 5),
    'a node is named for the files it has',
  )
  const empty = written({ item: folder(), files: blank(FileColumns), places: [] })
  t.same(JSON.parse(empty).children, {})
  const whole = { item: folder({ children: files }), files: undefined, places: [] }
  t.equal(written(whole), JSON.stringify(present.item(whole.item, view)), 'without columns')
})

t.test('an item is written as its object would be', async (t) => {
  const texts = ['', 'plain', '"quoted"\\\n', 'é😀\u2028', 'x'.repeat(256), 'é'.repeat(10_000)]
  const id = (number: number) => `3f2b8c54-9d1e-4f6a-8b7c-${number.toString(16).padStart(12, '0')}`
  const link = { ...blank(DirectLink), id: id(900), auth: [] }
  const children = texts.flatMap((text, n) => [
    folder({
      id: id(8 * n),
      name: text,
      description: text,
      tags: text,
      isPublic: n % 2 === 0,
      password: true,
    }),
    folder({ id: id(8 * n + 1), name: text, canAccess: false, passwordStatus: 'passwordRequired' }),
    folder({
      id: id(8 * n + 2),
      isOwner: true,
      expiry: now,
      deleteAfterExpiry: false,
      recycledTime: 2 ** 33,
    }),
    file({ id: id(8 * n + 3), name: text, mimetype: text, isOwner: true, modTime: -1 }),
    file({ id: id(8 * n + 4), size: Number.MAX_SAFE_INTEGER, blob: undefined, tags: text }),
    folder({ id: id(8 * n + 5), children: [file({ id: id(8 * n + 6) })] }),
    file({ id: id(8 * n + 7), isOwner: true, directLinks: n === 0 ? [link] : [] }),
  ])
  const item = folder({ children })
  const view = { nowSeconds: now, tokenCounter: 3 }
  const json = new JsonWriter()
  t.same([...present.write(json, { item, files: undefined, places: [] }, view)], [])
  t.equal(json.done().toString(), JSON.stringify(present.item(item, view)))
})

function columnsOf(files: readonly Item[]): FileColumns {
  const numbers = (column: Float64Array | Uint32Array | Uint16Array) => Buffer.from(column.buffer)
  const mimetypes = [...new Set(files.map(({ mimetype }) => mimetype))]
  return {
    ids: Buffer.from(files.map(({ id }) => id.replaceAll('-', '')).join(''), 'hex'),
    names: files.map(({ name }) => name).join(''),
    nameLengths: numbers(Uint16Array.from(files, ({ name }) => name.length)),
    codes: Buffer.from(files.map(({ code = '' }) => code.padEnd(8, '\0')).join('')),
    createTimes: numbers(Float64Array.from(files, ({ createTime }) => createTime)),
    modTimes: numbers(Float64Array.from(files, ({ modTime }) => modTime)),
    sizes: numbers(Float64Array.from(files, ({ size }) => size)),
    downloads: numbers(Float64Array.from(files, ({ downloads }) => downloads)),
    md5s: Buffer.concat(files.map(({ blob }) => blob?.id.subarray(0, 16) ?? Buffer.alloc(16))),
    placementGroups: numbers(Uint32Array.from(files, ({ blob }) => blob?.placementGroup ?? 0)),
    mimetypes,
    mimetypeIndexes: numbers(Uint16Array.from(files, ({ mimetype }) => mimetypes.indexOf(mimetype))),
  }
}

t.test('a thousand children cost little more than their signatures and their JSON', async (t) => {
  const children = Array.from({ length: 1000 }, (_, index) =>
    file({
      id: `3f2b8c54-9d1e-4f6a-8b7c-${index.toString(16).padStart(12, '0')}`,
      name: `Photo number ${index} é.jpg`,
    }),
  )
  const listing = folder({ children })
  const answer = present.item(listing, { nowSeconds: now })
  const presented = () => JSON.stringify(present.item(listing, { nowSeconds: now }))
  const reference = () => {
    for (const { id } of children) createHmac('sha256', capabilityKey).update(id).digest()
    return JSON.stringify(answer)
  }
  // In turn, so that other work on the machine slows both.
  const rounds = Array.from({ length: 40 }, () => [timeOf(presented), timeOf(reference)] as const)
  const [own, least] = [0, 1].map((at) => Math.min(...rounds.map((round) => round[at] ?? 0))) as [
    number,
    number,
  ]
  t.comment(`${own.toFixed(2)} ms, the reference ${least.toFixed(2)} ms`)
  t.ok(own < least, `${(own / least).toFixed(1)} times the reference`)
})

function timeOf(work: () => unknown): number {
  const started = performance.now()
  work()
  return performance.now() - started
}
