import { createHash, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { growsLinearly } from '../../../test/support/growth.ts'
import { parseRange, rangesOf, spelledRange } from '../src/addresses.ts'
import {
  accessTo,
  type DirectLinkInfo,
  type DirectLinkUse,
  directLinkAccess,
  type FolderInfo,
  isShown,
  normalDomain,
  type PasswordVerdict,
  signArchiveCapability,
  signCapability,
  verifyArchiveCapability,
  verifyCapability,
} from '../src/index.ts'

const open: FolderInfo<string> = { isPublic: true, recycled: false, ends: undefined, password: undefined }
const visitor = (verdict: PasswordVerdict = 'missing', now = 100) => ({
  isOwner: false,
  now,
  tryPassword: () => verdict,
})

t.test('the one rule for reading', async (t) => {
  t.equal(accessTo(open, visitor()), 'open')
  t.equal(accessTo({ ...open, isPublic: false }, visitor()), 'notOwner', 'private')
  t.equal(accessTo({ ...open, recycled: true }, visitor()), 'notFound', 'in the bin')
  t.equal(accessTo({ ...open, ends: 101 }, visitor()), 'open', 'the second before its expiry')
  t.equal(accessTo({ ...open, ends: 100 }, visitor()), 'notFound', 'the second of its expiry')
  t.equal(accessTo({ ...open, password: 'p' }, visitor('missing')), 'passwordRequired')
  t.equal(accessTo({ ...open, password: 'p' }, visitor('wrong')), 'passwordWrong')
  t.equal(accessTo({ ...open, password: 'p' }, visitor('right')), 'open')
  t.equal(accessTo({ ...open, password: 'p' }, visitor('unknown')), 'unknown')
  t.equal(
    accessTo({ ...open, isPublic: false, password: 'p' }, visitor('right')),
    'notOwner',
    'a password opens nothing private',
  )
  t.equal(
    accessTo({ ...open, isPublic: false, recycled: true }, visitor()),
    'notFound',
    'a deleted folder is reported first',
  )
})

t.test('no password is requested where it cannot change the result', async (t) => {
  const never = { isOwner: false, now: 100, tryPassword: () => t.fail('asked') as never }
  accessTo({ ...open, isPublic: false, password: 'p' }, never)
  accessTo({ ...open, recycled: true, password: 'p' }, never)
  accessTo({ ...open, ends: 1, password: 'p' }, never)
  accessTo({ ...open, password: 'p' }, { ...never, isOwner: true })
})

t.test('the owner reads everything, and no visitor sees more than the owner', async () => {
  const details = fc.record({
    isPublic: fc.boolean(),
    recycled: fc.boolean(),
    ends: fc.option(fc.integer({ min: 0, max: 200 }), { nil: undefined }),
    password: fc.option(fc.constant('p'), { nil: undefined }),
  })
  const verdict = fc.constantFrom<PasswordVerdict>('right', 'wrong', 'missing')
  fc.assert(
    fc.property(details, verdict, (folder, said) => {
      const access = accessTo(folder, visitor(said))
      const may = folder.isPublic && !folder.recycled && (folder.ends === undefined || folder.ends > 100)
      const fits = folder.password === undefined || said === 'right'
      return (
        accessTo(folder, { ...visitor(said), isOwner: true }) === 'open' &&
        (access === 'open') === (may && fits) &&
        isShown(access) === may
      )
    }),
  )
})

const free: DirectLinkInfo = {
  expireTime: 0,
  sourceIpsAllowed: [],
  domainsAllowed: [],
  domainsBlocked: [],
  auth: [],
}
const use: DirectLinkUse = {
  now: 100,
  sourceIp: '192.0.2.7',
  domain: '',
  user: undefined,
  password: undefined,
}

t.test('direct links: expiry, addresses, domains', async (t) => {
  const at = (link: Partial<DirectLinkInfo>, more: Partial<DirectLinkUse> = {}) =>
    directLinkAccess({ ...free, ...link }, { ...use, ...more })
  t.equal(at({}), 'open')
  t.equal(at({ expireTime: 101 }), 'open')
  t.equal(at({ expireTime: 100 }), 'notFound')
  t.equal(at({ sourceIpsAllowed: ['192.0.2.7'] }), 'open')
  t.equal(at({ sourceIpsAllowed: ['192.0.2.0/29', '2001:db8::/32'] }), 'open')
  t.equal(at({ sourceIpsAllowed: ['192.0.2.8/29'] }), 'forbidden')
  t.equal(at({ sourceIpsAllowed: ['2001:db8::/32'] }, { sourceIp: '2001:db8:1::5' }), 'open')
  t.equal(
    at({ sourceIpsAllowed: ['nonsense'] }),
    'forbidden',
    'a folder that cannot be read allows no visitor',
  )
  t.equal(at({ domainsAllowed: ['example.org'] }), 'forbidden', 'a request that names no domain')
  t.equal(at({ domainsAllowed: ['example.org'] }, { domain: 'example.org' }), 'open')
  t.equal(at({ domainsAllowed: ['Example.ORG:8080'] }, { domain: 'cdn.example.org' }), 'open')
  t.equal(at({ domainsAllowed: ['.example.org'] }, { domain: 'cdn.example.org' }), 'open')
  t.equal(at({ domainsAllowed: ['.example.org'] }, { domain: 'badexample.org' }), 'forbidden')
  t.equal(at({ domainsBlocked: ['.example.org'] }, { domain: 'example.org' }), 'forbidden')
  t.equal(at({ domainsAllowed: ['example.org'] }, { domain: 'badexample.org' }), 'forbidden')
  t.equal(at({ domainsAllowed: ['bücher.example'] }, { domain: 'xn--bcher-kva.example' }), 'open')
  t.equal(at({ domainsBlocked: ['example.org'] }), 'open', 'a request that names no domain')
  t.equal(at({ domainsBlocked: ['example.org'] }, { domain: 'a.example.org' }), 'forbidden')
  t.equal(
    at({ domainsBlocked: ['a.example.org'], domainsAllowed: ['example.org'] }, { domain: 'a.example.org' }),
    'forbidden',
  )
})

t.test('direct links: basic credentials', async (t) => {
  const entry = (user: string, password: string) => {
    const salt = randomBytes(16)
    return { user, salt, hash: createHash('sha256').update(salt).update(password).digest() }
  }
  const link = { ...free, auth: [entry('ann', 'one'), entry('ann', 'two'), entry('bob', 'three')] }
  const as = (user?: string, password?: string) => directLinkAccess(link, { ...use, user, password })
  t.equal(as(), 'passwordRequired')
  t.equal(as('ann', 'one'), 'open')
  t.equal(as('ann', 'two'), 'open')
  t.equal(as('bob', 'three'), 'open')
  t.equal(as('bob', 'one'), 'passwordWrong')
  t.equal(as('eve', 'one'), 'passwordWrong')
  t.equal(as('ann', ''), 'passwordWrong')
})

t.test('addresses and ranges are read strictly', async (t) => {
  const good = [
    '0.0.0.0',
    '255.255.255.255/32',
    '10.0.0.0/8',
    '::',
    '::1',
    'fe80::1:2',
    '1:2:3:4:5:6:7:8',
    '::ffff:1.2.3.4',
    '2001:db8::/0',
    '1::8',
    '64:ff9b::192.0.2.33',
  ]
  const bad = [
    '',
    '1.2.3',
    '1.2.3.4.5',
    '256.1.1.1',
    '01.2.3.4',
    '1.2.3.4/33',
    '1.2.3.4/',
    '1.2.3.4/08',
    '1.2.3.4/1/2',
    ':',
    ':::',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '1::2::3',
    '12345::',
    'g::',
    'fe80::1%eth0',
    '1:2:3:4:5:6:7::8',
    '1.2.3.4::',
    '::1.2.3',
    ' 1.2.3.4',
  ]
  for (const text of good) t.ok(parseRange(text), text)
  for (const text of bad) t.equal(parseRange(text), undefined, text)
})

t.test('v4-mapped addresses are v4', async (t) => {
  const range = parseRange
  t.ok(range('10.0.0.0/8')?.has('::ffff:10.1.2.3'))
  t.ok(range('::ffff:10.0.0.0/104')?.has('10.1.2.3'))
  t.notOk(range('::ffff:10.0.0.0/104')?.has('11.1.2.3'))
  t.notOk(range('::/0')?.has('10.1.2.3'), 'a v6 range names no v4 address')
  t.notOk(range('0.0.0.0/0')?.has('nonsense'))
})

t.test('ranges of one family name no address of the other', async (t) => {
  const ranges = rangesOf(['::/0', '10.0.0.1', '::ffff:192.0.2.0/120'])
  for (const inside of ['10.0.0.1', '192.0.2.9', '::ffff:192.0.2.9', '2001:db8::1', '::1'])
    t.equal(ranges.has(inside), true, inside)
  for (const outside of ['10.0.0.2', '192.0.3.1', '::ffff:10.0.0.2', 'x'])
    t.equal(ranges.has(outside), false, outside)
})

t.test('a range has one spelling', async (t) => {
  const spellings = {
    '192.0.2.7': ['192.0.2.7', '192.0.2.7/32', '::ffff:192.0.2.7', '::FFFF:c000:207/128'],
    '192.0.2.0/24': ['192.0.2.0/24', '192.0.2.7/24', '::ffff:192.0.2.1/120'],
    '0.0.0.0/0': ['0.0.0.0/0', '255.1.2.3/0', '::ffff:0:0/96'],
    '2001:db8::/32': ['2001:DB8::/32', '2001:0db8:0:0:1:2:3:4/32', '2001:db8:ffff::/32'],
    '2001:db8::1': ['2001:db8:0::1', '2001:db8::1/128'],
    '64:ff9b::102:304': ['64:ff9b::1.2.3.4'],
    '::1.2.3.0/120': ['::1.2.3.4/120', '::102:304/120'],
    '::/0': ['::/0', 'ffff::1/0'],
    '::1': ['::1', '0:0:0:0:0:0:0:1'],
  }
  for (const [one, others] of Object.entries(spellings))
    for (const other of others) t.equal(spelledRange(other), one, other)
  for (const wrong of ['', '1.2.3', '1.2.3.4/33', '::/129', '::ffff:1.2.3.4/95'])
    t.equal(spelledRange(wrong), undefined, wrong)
})

t.test('a range holds exactly the addresses that share its prefix', async () => {
  const byte = fc.integer({ min: 0, max: 255 })
  fc.assert(
    fc.property(
      fc.tuple(byte, byte, byte, byte),
      fc.tuple(byte, byte, byte, byte),
      fc.integer({ min: 0, max: 32 }),
      (a, b, prefix) => {
        const bits = (parts: number[]) => parts.map((part) => part.toString(2).padStart(8, '0')).join('')
        const range = parseRange(`${a.join('.')}/${prefix}`)
        return range?.has(b.join('.')) === bits(a).startsWith(bits(b).slice(0, prefix))
      },
    ),
  )
})

t.test('domains are compared in one form', async (t) => {
  t.equal(normalDomain('https://Example.org:8443/path?x#y'), 'example.org')
  t.equal(normalDomain('*.example.org.'), 'example.org')
  t.equal(normalDomain('https://.Example.org:8443/path'), 'example.org')
  t.equal(normalDomain('.'), undefined)
  t.equal(normalDomain('[2001:DB8::1]:80'), '[2001:db8::1]')
  t.equal(normalDomain(''), undefined)
  t.equal(normalDomain('   '), undefined)
  t.equal(normalDomain(`${'a.'.repeat(126)}a`), `${'a.'.repeat(126)}a`)
  for (const long of ['0'.repeat(254), `${'a.'.repeat(126)}ab`, `${'ü.'.repeat(100)}de`])
    t.equal(normalDomain(long), undefined, 'longer than a name may be')
})

t.test('a capability is valid for the signed details, until it ends', async (t) => {
  const key = randomBytes(32)
  const folderId = '30be9114-2b9d-4437-b2f6-b11a2466fbf5'
  const text = signCapability(key, {
    folderId,
    ends: 1000,
    ownerTokenCounter: undefined,
    passwordVersion: randomBytes(16),
  })
  t.match(verifyCapability(key, text, 999), { folderId, ends: 1000 })
  t.equal(verifyCapability(key, text, 1000), undefined, 'over')
  t.equal(verifyCapability(randomBytes(32), text, 999), undefined, 'another key')
  for (let at = 0; at < 58; at += 7) {
    const bytes = Buffer.from(text, 'base64url')
    bytes[at] = (bytes[at] as number) ^ 1
    t.equal(verifyCapability(key, bytes.toString('base64url'), 999), undefined, `byte ${at}`)
  }
  const owners = signCapability(key, {
    folderId,
    ends: 1000,
    ownerTokenCounter: 7,
    passwordVersion: new Uint8Array(0),
  })
  t.match(verifyCapability(key, owners, 1), { ownerTokenCounter: 7 })
})

t.test(
  'the time to parse a domain, a range of addresses or a capability grows with its length',
  async (t) => {
    for (const piece of ['a', '.', ':', '[', ']:', '/', '*.', '1', '%', 'ü', 'xn--', ' ']) {
      for (const [what, parse] of [
        ['domain', normalDomain],
        ['range', parseRange],
      ] as const) {
        const { linear, growth } = growsLinearly((n) => `x${piece.repeat(n)}!`, parse)
        t.ok(linear, `a ${what} of "${piece}": ${growth.toFixed(1)} times for 8 times the characters`)
      }
    }
  },
)

t.test('the capability of an archive is valid for the signed contents and passwords', async (t) => {
  const key = randomBytes(32)
  const contentIds = ['2f6f4b1e-7d7a-4a3c-9a54-3f1f5c0e9b11', '0b1d7c52-31d4-4f0b-8d2e-6a7c1a5e2f33']
  const passwordVersions = [randomBytes(16)]
  const text = signArchiveCapability(key, { contentIds, passwordVersions, ends: 1000 })
  t.match(verifyArchiveCapability(key, text, 999), { contentIds, passwordVersions, ends: 1000 })
  t.equal(verifyArchiveCapability(key, text, 1000), undefined, 'over')
  t.equal(verifyArchiveCapability(randomBytes(32), text, 999), undefined, 'another key')
  t.equal(verifyCapability(key, text, 999), undefined, 'it opens no file')
  const bytes = Buffer.from(text, 'base64url')
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes)
    changed[at] = (changed[at] as number) ^ 1
    t.equal(verifyArchiveCapability(key, changed.toString('base64url'), 999), undefined, `byte ${at}`)
  }
  for (const bad of ['', 'A', '*'.repeat(80), text.slice(0, -22), 'A'.repeat(100_000)])
    t.equal(verifyArchiveCapability(key, bad, 999), undefined)
  const most = { contentIds: Array.from({ length: 200 }, () => contentIds[0] as string), ends: 1000 }
  const long = signArchiveCapability(key, { ...most, passwordVersions: Array(16).fill(randomBytes(16)) })
  t.equal(verifyArchiveCapability(key, long, 999)?.contentIds.length, 200)
  t.ok(long.length < 5_000, `${long.length} characters`)
  const folder = signCapability(key, {
    folderId: contentIds[0] as string,
    ends: 1000,
    ownerTokenCounter: undefined,
    passwordVersion: new Uint8Array(0),
  })
  t.equal(verifyArchiveCapability(key, folder, 999), undefined, 'one of a file opens no archive')
})
