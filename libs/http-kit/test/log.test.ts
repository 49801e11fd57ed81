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
  const began = performance.now()
  for (const piece of ['a', 'a.', 'a@', 'a%40', '1%40.', '-'.repeat(63)])
    linesOf((log) => log.info({ text: piece.repeat(100_000 / piece.length) }, 'x'))
  t.ok(performance.now() - began < 2_000)
})
