import fc from 'fast-check'
import t from 'tap'
import { createLog } from '../src/index.ts'

function linesOf(write: (log: ReturnType<typeof createLog>) => void): string {
  let text = ''
  const destination = {
    write(line: string) {
      text += line
    },
  }
  write(createLog({ level: 'debug', destination }))
  return text
}

const token = 'Zk5hQmNk-0123_456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQR'

t.test('secrets are left out wherever they come from', async (t) => {
  t.equal(token.length, 64)
  const fault = (text: string) => linesOf((log) => log.error({ err: new Error(text) }, 'x'))
  for (const text of [token, `/contents/${token}`, `token=${token}&x=1`, `"${token}"`, `Bearer ${token}`]) {
    t.notMatch(fault(text), token)
    t.match(fault(text), '[secret]')
  }
  for (const address of ['a@mail.example.org', 'a.b+c@x.de', 'ä@müller.example', 'a%40mail.example.org'])
    for (const text of [`550 <${address}> unknown`, `/x/${address}?y`, `email=${address}&z`]) {
      t.notMatch(fault(text), address)
      t.match(fault(text), '[address]')
    }
  const field = linesOf((log) => log.info({ password: 'p', deep: { down: { guestToken: 'g' } } }, 'x'))
  t.match(field, '"password":"[secret]","deep":{"down":{"guestToken":"[secret]"}}')
})

t.test('secrets are left out however the text around them is encoded', async (t) => {
  const around = fc.string({ unit: fc.constantFrom('a', '2', '"', ' ', '=', '%', '/', 'ä', '\n', '\u001b') })
  const times = fc.integer({ min: 0, max: 3 })
  const encode = (text: string, count: number): string =>
    count === 0 ? text : encode(encodeURIComponent(text), count - 1)
  const edge = fc.constantFrom('"', '=', ' ', '/', '\n', '\u001b', 'ä', '')
  const secret = fc.constantFrom(token, 'ann@mail.example.org', 'ann@пример.рф')
  fc.assert(
    fc.property(around, edge, secret, edge, around, times, (before, left, hidden, right, after, count) => {
      const text = encode(`${left && before + left}${hidden}${right && right + after}`, count)
      const line = linesOf((log) => log.info({ path: text, err: new Error(text) }, text))
      return JSON.parse(line) && !line.includes(encode(hidden, count))
    }),
  )
  const quoted = JSON.stringify({ from: `550\n${token}` })
  t.notMatch(
    linesOf((log) => log.info({ quoted }, 'x')),
    token,
  )
})

t.test('text that only looks like a secret stays', async (t) => {
  for (const text of [
    'a0'.repeat(32),
    'a0'.repeat(48),
    `${token}x`,
    '/node_modules/@fastify/send/index.js:1:2',
    'pino@10.4.0',
    '764e7dd9-9511-4578-b393-3ec04165efa6',
  ])
    t.match(
      linesOf((log) => log.info({ text }, 'x')),
      text,
    )
})

t.test('a long line is searched in a short time', async (t) => {
  const began = process.cpuUsage()
  for (const piece of ['a', 'a.', 'a@', 'a%40', '1%40.', '-'.repeat(63), '25', '%25', '\\n', '\n', '"'])
    linesOf((log) => log.info({ text: `%${piece.repeat(100_000 / piece.length)}` }, 'x'))
  t.ok(process.cpuUsage(began).user < 700_000)
})
