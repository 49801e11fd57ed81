import { createHash } from 'node:crypto'
import t from 'tap'
import {
  isDescription,
  isName,
  isPasswordDigest,
  isTag,
  isTime,
  passwordDigest,
  timeMax,
  timeMin,
} from '../src/index.ts'

t.test('tags are letters and decimal digits of any script', async (t) => {
  for (const tag of ['a', 'Größe', '一', '٣', 'a-b_c', '𐐀'.repeat(25)]) t.ok(isTag(tag), tag)
  for (const tag of ['', 'a b', 'Ⅷ', '½', '²', 'a,b', '𐐀'.repeat(26), '\ud800'])
    t.notOk(isTag(tag), JSON.stringify(tag))
})

t.test('names and descriptions are counted in code points, and well-formed', async (t) => {
  t.ok(isName('𐐀'.repeat(255)))
  for (const name of ['', '.', '..', 'a/b', 'a\u0085', 'a\ud800', '𐐀'.repeat(256)])
    t.notOk(isName(name), JSON.stringify(name))
  t.ok(isDescription('𐐀'.repeat(2_000)))
  t.notOk(isDescription('𐐀'.repeat(2_001)))
  t.notOk(isDescription('\udc00'))
})

t.test('times are whole seconds of the years 0 to 9999', async (t) => {
  for (const time of [timeMin, 0, timeMax]) t.ok(isTime(time))
  for (const time of [timeMin - 1, timeMax + 1, 0.5, Number.NaN]) t.notOk(isTime(time))
})

t.test(
  'a password is sent as its SHA-256 in lower-case hex; that hex is taken as it is, in any case',
  async (t) => {
    const digest = passwordDigest('Größe')
    t.equal(digest, createHash('sha256').update('Größe').digest('hex'))
    t.ok(isPasswordDigest(digest))
    t.equal(passwordDigest(digest.toUpperCase()), digest)
    for (const text of [digest.toUpperCase(), digest.slice(1), `${digest}0`, ` ${digest}`, ''])
      t.notOk(isPasswordDigest(text), text)
    t.not(passwordDigest(digest.slice(1)), digest.slice(1), 'a plaintext of 63 digits')
  },
)
