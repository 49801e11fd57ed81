import { isUuid } from '@holdfast/kernel'
import fc from 'fast-check'
import t from 'tap'
import {
  cleanUploadName,
  mailboxOf,
  parseDescription,
  parseEmail,
  parseExpiry,
  parseFolderPassword,
  parseIds,
  parseModTime,
  parseName,
  parseTags,
} from '../src/index.ts'

const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme', maxLength: 400 }),
  // Lone units: surrogates without their half.
  fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
)
const points = (text: string) => [...text].length

t.test('a name is kept exactly as sent, or refused', async (t) => {
  for (const good of [
    'a',
    'x'.repeat(255),
    '😀'.repeat(255),
    '.htaccess',
    '...',
    ' a ',
    'e\u0301',
    '\u202efdp',
    'CON',
  ])
    t.equal(parseName(good), good)
  for (const bad of [
    '',
    '.',
    '..',
    'a/b',
    'a\0b',
    'a\nb',
    '\u0085',
    '\x7f',
    'x'.repeat(256),
    '😀'.repeat(256),
    '\ud800',
  ])
    t.equal(parseName(bad), undefined, JSON.stringify(bad))
  fc.assert(
    fc.property(anyText, (text) => {
      const name = parseName(text)
      return (
        name === undefined ||
        (name === text && points(name) <= 255 && !name.includes('/') && name.isWellFormed())
      )
    }),
  )
})

t.test("an upload's name is never refused and always becomes a name", async (t) => {
  t.equal(cleanUploadName('../../etc/passwd'), 'passwd')
  t.equal(cleanUploadName('C:\\fakepath\\a.txt'), 'a.txt')
  t.equal(cleanUploadName('dir/'), 'file')
  t.equal(cleanUploadName('..'), 'file')
  t.equal(cleanUploadName('\r\n'), 'file')
  t.equal(cleanUploadName('a\r\nb.txt'), 'ab.txt')
  t.equal(cleanUploadName(`${'x'.repeat(300)}.tar.gz`), `${'x'.repeat(252)}.gz`)
  t.equal(cleanUploadName(`.${'x'.repeat(300)}`).length, 255)
  t.equal(points(cleanUploadName(`${'😀'.repeat(300)}.png`)), 255)
  t.ok(cleanUploadName(`${'😀'.repeat(300)}.png`).endsWith('😀.png'))
  t.equal(cleanUploadName('a\ud800b'), 'a\ufffdb')
  fc.assert(fc.property(anyText, (text) => parseName(cleanUploadName(text)) === cleanUploadName(text)))
  fc.assert(
    fc.property(
      anyText,
      (text) =>
        parseName(text) === undefined ||
        /[/\\]/.test(text) ||
        text.trim() === '' ||
        cleanUploadName(text) === text,
    ),
  )
})

t.test('tags are normalised to a stable form', async (t) => {
  t.equal(parseTags(' a , b,,a, ç-1_x '), 'a,b,ç-1_x')
  t.equal(parseTags(''), '')
  t.equal(parseTags(' , '), '')
  t.equal(parseTags('x'.repeat(25)), 'x'.repeat(25))
  for (const bad of ['x'.repeat(26), 'a b', 'a.b', '<x>', 'e\u0301', 'a;b', '\ud800', '😀'])
    t.equal(parseTags(bad), undefined, bad)
  const many = Array.from({ length: 50 }, (_, index) => `t${index}`)
  t.equal(parseTags(many.join(',')), many.join(','))
  t.equal(parseTags([...many, 'more'].join(',')), undefined)
  t.equal(parseTags([...many, ...many].join(',')), many.join(','))
  t.equal(parseTags('a'.padEnd(10_000, ' ,')), 'a')
  t.equal(parseTags('a'.padEnd(10_001, ' ,')), undefined, 'a longer text is not read')
  fc.assert(
    fc.property(anyText, (text) => {
      const tags = parseTags(text)
      return tags === undefined || parseTags(tags) === tags
    }),
  )
})

t.test('texts, times and passwords have their bounds', async (t) => {
  t.equal(parseDescription('😀'.repeat(2000)), '😀'.repeat(2000))
  t.equal(parseDescription('x'.repeat(2001)), undefined)
  t.equal(parseFolderPassword('abc'), undefined)
  t.equal(parseFolderPassword('😀'.repeat(4)), '😀'.repeat(4))
  t.equal(parseFolderPassword('x'.repeat(100)), 'x'.repeat(100))
  t.equal(parseFolderPassword('x'.repeat(101)), undefined)
  t.equal(parseExpiry(1000, 1000), undefined)
  t.equal(parseExpiry(1001, 1000), 1001)
  t.equal(parseExpiry(253_402_300_799, 1000), 253_402_300_799)
  t.equal(parseExpiry(1_700_000_000_000, 1000), undefined, 'milliseconds')
  t.equal(parseModTime(-1), -1)
  t.equal(parseModTime(1_700_000_000_000), undefined, 'milliseconds')
  t.equal(parseModTime(-62_167_219_201), undefined)
})

t.test('lists of ids are bounded, canonical and free of repetitions', async (t) => {
  const id = '3f2b8c54-9d1e-4f6a-8b7c-0123456789ab'
  t.same(parseIds(id), [id])
  t.same(parseIds(` ${id.toUpperCase()} , ${id}`), [id])
  for (const bad of ['', ',', `${id},`, 'abc', `${id};${id}`, `${id} ${id}`])
    t.equal(parseIds(bad), undefined, bad)
  const many = Array.from(
    { length: 1001 },
    (_, index) => `3f2b8c54-9d1e-4f6a-8b7c-${index.toString(16).padStart(12, '0')}`,
  )
  t.equal(parseIds(many.join(',')), undefined)
  t.equal(parseIds(many.slice(1).join(','))?.length, 1000)
  fc.assert(fc.property(fc.oneof(anyText, fc.uuid()), (text) => parseIds(text)?.every(isUuid) ?? true))
})

t.test('addresses of mails are plain', async (t) => {
  for (const good of ['a@b.co', 'First.Last+tag@Sub.Example.org', "o'neil@example.com"])
    t.equal(parseEmail(good), good)
  for (const bad of [
    '',
    'a',
    'a@',
    '@b.co',
    'a@b',
    'a b@c.de',
    'a@b..co',
    'a@-b.co',
    'a..b@c.de',
    '.a@c.de',
    'a@b.co\r\nBcc: x@y.z',
    '"a b"@c.de',
    'a@b.co,c@d.ef',
    '<a@b.co>',
    'ä@b.co',
    `${'x'.repeat(65)}@b.co`,
    `a@${'x.'.repeat(130)}co`,
    '3f2b8c54-9d1e-4f6a-8b7c-0123456789ab@guest.invalid',
  ])
    t.equal(parseEmail(bad), undefined, bad)
})

t.test('line ends are removed from the name of an upload; quotes and direction marks stay', async (t) => {
  t.equal(cleanUploadName('a "quoted"\r\n name.txt'), 'a "quoted" name.txt')
  t.equal(cleanUploadName('\u202egpj.exe'), '\u202egpj.exe', 'no control character: it is kept as sent')
})

t.test('all spellings of a mailbox have one name, and each mailbox has its own', async (t) => {
  for (const email of ['ann@example.org', 'ANN@Example.ORG', 'ann+news@example.org', 'Ann+a+b@example.org'])
    t.equal(mailboxOf(email), 'ann@example.org')
  for (const email of ['ann.b@gmail.com', 'a.n.n.b+x@googlemail.com', 'AnnB@gmail.com'])
    t.equal(mailboxOf(email), 'annb@gmail.com')
  t.equal(mailboxOf('a.nn@example.org'), 'a.nn@example.org', 'elsewhere dots count')
  t.equal(mailboxOf('+x@example.org'), '+x@example.org', 'only a tag is a name')
})
