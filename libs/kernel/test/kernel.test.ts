import { statSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import {
  bytesOfUuid,
  isReservedWord,
  isShareCode,
  isUuid,
  Keyring,
  makeDirectories,
  mintRequestId,
  parseToken,
  RecentMap,
  regionCodes,
  requestIdOfKey,
  requestTime,
  uuidOfBytes,
} from '../src/index.ts'

const keyring = new Keyring(Buffer.alloc(32, 7))
const eight = fc.uint8Array({ minLength: 8, maxLength: 8 })
const region = fc.constantFrom(...regionCodes)

t.test('ids, codes and tokens of a known master secret never change', async (t) => {
  const account = keyring.ids.account('na-nyc', Buffer.from('0123456789abcdef', 'hex'))
  t.matchOnly(
    {
      account,
      content: keyring.ids.content(account, Buffer.from('fedcba9876543210', 'hex')),
      code: [0, 1, 2, 4096].map((counter) => keyring.codes.code(counter)),
      legacy: [0, 1].map((counter) => keyring.legacyCodes.code(counter)),
      token: keyring.tokens.token(account, { keyId: 1, counter: 3 }),
      capability: Buffer.from(keyring.derive('capability')).toString('hex'),
    },
    {
      account: '9d70d692-95fd-4ce5-a2fb-a044868fa37a',
      content: '88e27116-eaf8-42ec-b4d0-a1ab75d18d85',
      code: ['FbpBmVUP', '0tHUUPOw', 'Gs6NJgkC', 'vAUsBleK'],
      legacy: ['0AqQdl', 'eH5Tyd'],
      token: 'nXDWkpX9TOWi-6BEho-jeiyfgondwVGvw9C_aLn9YojJA1dzhipgAg1JHw0jUyun',
      capability: '14972bc666bb3c1a278c7983b16f1686204573a1cba5f69c5941a80e02cbb38f',
    },
  )
})

t.test('a content id yields its account and an account id its birth region', async () => {
  fc.assert(
    fc.property(region, eight, eight, (code, accountRandom, contentRandom) => {
      const account = keyring.ids.account(code, accountRandom)
      const content = keyring.ids.content(account, contentRandom)
      return (
        isUuid(account) &&
        isUuid(content) &&
        keyring.ids.parseAccount(account.toUpperCase()) === account &&
        keyring.ids.birthRegion(account) === code &&
        keyring.ids.accountOf(content) === account &&
        keyring.ids.accountOf(content.toUpperCase()) === account &&
        content[14] === '4' &&
        '89ab'.includes(content[19] ?? '') &&
        uuidOfBytes(bytesOfUuid(content)) === content
      )
    }),
  )
})

t.test('ids made under another key, or invented, are no account ids', async (t) => {
  const other = new Keyring(Buffer.alloc(32, 8))
  let believed = 0
  for (let n = 0; n < 2000; n++) {
    const account = other.ids.account('eu-par')
    if (keyring.ids.parseAccount(account)) believed++
  }
  t.equal(believed, 0)
  for (const text of [
    '',
    'x',
    '00000000-0000-1000-8000-000000000000',
    '00000000-0000-4000-0000-000000000000',
    'a'.repeat(36),
  ])
    t.equal(keyring.ids.parseAccount(text), undefined, text)
  t.equal(keyring.ids.accountOf('not-an-id'), undefined)
})

t.test(
  'share codes of different counters differ, have the right form and are not reserved words',
  async (t) => {
    for (const codes of [keyring.codes, keyring.legacyCodes]) {
      const seen = new Set<string>()
      for (let counter = 0; counter < 20_000; counter++) seen.add(codes.code(counter))
      t.equal(seen.size, 20_000)
      t.ok([...seen].every(isShareCode))
      t.notOk(seen.has('search'))
    }
  },
)

t.test('no token begins with a dash, which command lines take for an option', async (t) => {
  const begins = (number: number) => {
    const account = keyring.ids.account(
      'na-phx',
      Buffer.from([...Array(6).fill(9), number >> 8, number & 255]),
    )
    return keyring.tokens.token(account, { keyId: 1, counter: 1 })[0]
  }
  const first = new Set(Array.from({ length: 4_000 }, (_, number) => begins(number << 6)))
  t.equal(first.size, 63)
  t.notOk(first.has('-'))
})

t.test('a token opens its account until the counter moves, and nothing else', async (t) => {
  const account = keyring.ids.account('eu-par')
  const token = keyring.tokens.token(account, { keyId: 1, counter: 1 })
  const parsed = parseToken(token)
  t.equal(parsed?.account, account)
  if (!parsed) return
  t.ok(keyring.tokens.verify(parsed.bytes, account, { keyId: 1, counter: 1 }))
  t.notOk(keyring.tokens.verify(parsed.bytes, account, { keyId: 1, counter: 2 }))
  t.notOk(keyring.tokens.verify(parsed.bytes, account, { keyId: 2, counter: 1 }))
  for (let byte = 0; byte < parsed.bytes.length; byte++) {
    const damaged = Buffer.from(parsed.bytes)
    damaged[byte] = (damaged[byte] ?? 0) ^ 1
    t.notOk(keyring.tokens.verify(damaged, account, { keyId: 1, counter: 1 }))
  }
  for (const text of ['', 'a', `${token}a`, token.slice(1), `${token.slice(0, -1)}=`])
    t.equal(parseToken(text), undefined)
})

t.test(
  'a minted request id contains its time; one chosen by a client does not, and is reproducible',
  async (t) => {
    t.equal(requestTime(mintRequestId(1_800_000_000_123)), 1_800_000_000_123)
    t.equal(requestTime(requestIdOfKey('k')), undefined)
    t.same(requestIdOfKey('k'), requestIdOfKey('k'))
    t.notSame(requestIdOfKey('k'), requestIdOfKey('l'))
    const frozen = requestIdOfKey('k', Buffer.alloc(32, 7)).toString('hex')
    t.equal(
      frozen,
      'ffffffffffff50f6d539dd376f4816ee0707070707070707',
      'repeated after an update it is the same request',
    )
  },
)

t.test('ids and codes made in bulk equal those made one by one', async (t) => {
  const account = keyring.ids.account('ap-tyo')
  const randoms = Array.from({ length: 700 }, (_, n) => Buffer.alloc(8, n & 0xff).fill(n >> 3, 0, 4))
  t.same(
    keyring.ids.contents(account, randoms),
    randoms.map((random) => keyring.ids.content(account, random)),
  )
  for (const codes of [keyring.codes, keyring.legacyCodes])
    t.same(
      codes.codes(5_000_000, 700),
      Array.from({ length: 700 }, (_, n) => codes.code(5_000_000 + n)),
    )
  t.same(keyring.ids.contents(account, []), [])
  t.same(keyring.codes.codes(9, 0), [])
})

t.test('a code yields its counter, and other text yields none', async (t) => {
  for (const codes of [keyring.codes, keyring.legacyCodes]) {
    const counters = fc.integer({ min: 0, max: Math.min(codes.size, Number.MAX_SAFE_INTEGER) - 1 })
    fc.assert(fc.property(counters, (counter) => codes.counterOf(codes.code(counter)) === counter))
    for (let counter = 0; counter < 2_000; counter++)
      if (codes.counterOf(codes.code(counter)) !== counter) t.fail(`counter ${counter}`)
    const many = Array.from({ length: 700 }, (_, n) => n * 7)
    t.same(codes.countersOf(many.map((counter) => codes.code(counter))), many)
    t.same(codes.countersOf([]), [])
    t.throws(() => codes.countersOf([codes.code(1), 'short']), RangeError)
    t.throws(() => codes.counterOf('short'), RangeError)
    t.throws(() => codes.counterOf('-'.repeat(codes.length)), RangeError)
  }
  t.throws(() => keyring.codes.counterOf('Contents'), RangeError)
  t.ok(isReservedWord('Contents'))
})

t.test('codes made ahead equal those made singly', async (t) => {
  const fresh = () => new Keyring(Buffer.alloc(32, 7)).codes
  const counters = [
    ...Array.from({ length: 100 }, (_, n) => 5000 + n),
    5010,
    7,
    8,
    9,
    5100,
    62 ** 8 - 2,
    62 ** 8 - 1,
  ]
  const inOrder = fresh()
  t.same(
    counters.map((counter) => inOrder.code(counter)),
    counters.map((counter) => fresh().code(counter)),
  )
})

t.test('a recent map returns what was put, and keeps at least the latest half of its bound', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 20 }), fc.array(fc.nat(30)), (max, keys) => {
      const map = new RecentMap<number, number>({ max })
      for (const key of keys) {
        const known = map.get(key)
        if (known !== undefined && known !== key * 2) return false
        map.set(key, key * 2)
      }
      const latest = new Set<number>()
      for (const key of [...keys].reverse()) if (latest.size < Math.floor(max / 2)) latest.add(key)
      return [...latest].every((key) => map.get(key) === key * 2)
    }),
  )
})

t.test('missing directories are made, for their owner alone', async (t) => {
  const root = t.testdir({ file: 'not a directory', open: {} })
  const path = join(root, 'open', 'a', 'b')
  t.equal(await makeDirectories(path), join(root, 'open', 'a'))
  t.equal(await makeDirectories(path), undefined)
  for (const made of [path, join(root, 'open', 'a')]) t.equal(statSync(made).mode & 0o777, 0o700)
  const together = Array.from({ length: 8 }, () => makeDirectories(join(root, 'open', 'c', 'd', 'e')))
  await Promise.all(together)
  t.ok(statSync(join(root, 'open', 'c', 'd', 'e')).isDirectory())
  await t.rejects(makeDirectories(join(root, 'file')), { code: 'EEXIST' })
  await t.rejects(makeDirectories(join(root, 'file', 'below')), { code: 'EEXIST' })
})
