import { readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { MailFault } from '../src/errors.ts'
import { OutboxMailer, SmtpMailer } from '../src/index.ts'

const from = 'Holdfast <no-reply@files.example.org>'
/** The clock does not advance. */
const clock = { now: () => Date.UTC(2031, 0, 2, 3, 4, 5, 6), monotonic: () => 0 }
const link = `https://files.example.org/profile#token=${'A_-b'.repeat(16)}`

t.test(
  'the outbox holds one whole file per mail, with the link on its own line, readable by its owner alone',
  async (t) => {
    const folder = join(t.testdir(), 'outbox')
    const mailer = await OutboxMailer.open({ folder, from, clock })
    await mailer.sendSignIn({ id: 'a-1', to: 'Ann@example.org', link })
    t.same(readdirSync(folder), ['20310102T030405.006Z-a-1.eml'], 'no partial file is left')
    const text = readFileSync(join(folder, readdirSync(folder)[0] as string), 'utf8')
    t.match(text, /^To: Ann@example\.org$/m)
    t.ok(text.split('\r\n').includes(link), 'the link is not wrapped in the file')
    const html = text.slice(text.indexOf('text/html')).replaceAll('=\r\n', '')
    t.ok(html.includes(`href=3D"${link.replace('=', '=3D')}"`), 'the HTML part is quoted-printable')
    t.match(text, 'Message-ID: <a-1@files.example.org>')
    t.equal(statSync(folder).mode & 0o077, 0)
    t.equal(statSync(join(folder, readdirSync(folder)[0] as string)).mode & 0o077, 0)
    await mailer.close()
  },
)

t.test('mails are in the order of sending, also within one millisecond', async (t) => {
  const folder = t.testdir()
  const mailer = await OutboxMailer.open({ folder, from, clock })
  const ids = ['z', 'm', 'a', 'q', 'b']
  await Promise.all(ids.map((id) => mailer.sendSignIn({ id, to: 'ann@example.org', link })))
  t.same(
    readdirSync(folder)
      .sort()
      .map((name) => name.at(-5)),
    ids,
  )
})

t.test('no address can inject a header, a second recipient or a path', async (t) => {
  const folder = t.testdir()
  const mailer = await OutboxMailer.open({ folder, from, clock })
  const hostile = [
    'a@b.org\r\nBcc: c@d.org',
    'a@b.org, c@d.org',
    '"a@evil.org x"@b.org',
    'A <a@b.org>',
    'list: a@b.org;',
    'a(b)@c.org',
    'a@[127.0.0.1]',
    '',
    `${'a'.repeat(250)}@b.org`,
  ]
  for (const to of hostile) await t.rejects(mailer.sendSignIn({ id: 'x', to, link }), { code: 'REFUSED' }, to)
  await t.rejects(mailer.sendSignIn({ id: '../x', to: 'a@b.org', link }), { code: 'REFUSED' })
  await t.rejects(mailer.sendSignIn({ id: 'x', to: 'a@b.org', link: 'https://x/\r\nBcc: c@d.org' }), {
    code: 'REFUSED',
  })
  t.same(readdirSync(folder), [])
})

t.test('a guest is never mailed', async (t) => {
  const folder = t.testdir()
  const mailer = await OutboxMailer.open({ folder, from, clock })
  await mailer.sendSignIn({ id: 'g', to: '0b1c@guest.invalid', link })
  t.same(readdirSync(folder), [])
})

t.test('an outbox that cannot be written is a fault to retry, not a lost mail', async (t) => {
  const name = '20310102T030405.006Z-a.eml'
  const folder = join(t.testdir({ outbox: { [name]: {} } }), 'outbox')
  const mailer = await OutboxMailer.open({ folder, from, clock })
  await t.rejects(mailer.sendSignIn({ id: 'a', to: 'a@b.org', link }), {
    code: 'UNAVAILABLE',
    category: 'unavailable',
  })
  t.same(readdirSync(folder), [name])
})

t.test('a relay gets the mail whole', async (t) => {
  const relay = await startRelay(t)
  const mailer = new SmtpMailer({ url: relay.url, from })
  t.teardown(() => mailer.close())
  await mailer.sendSignIn({ id: 'a-2', to: 'ann@example.org', link })
  t.match(relay.said, ['MAIL FROM:<no-reply@files.example.org>', 'RCPT TO:<ann@example.org>'])
  t.ok(relay.said.includes(link))
})

t.test('permanent refusals of a relay are distinguished from temporary ones', async (t) => {
  const relay = await startRelay(t, { recipient: '550 no such mailbox' })
  const mailer = new SmtpMailer({ url: relay.url, from })
  await t.rejects(mailer.sendSignIn({ id: 'a', to: 'nobody@example.org', link }), { code: 'REFUSED' })
  await mailer.close()
  const busy = await startRelay(t, { recipient: '451 greylisted' })
  const later = new SmtpMailer({ url: busy.url, from })
  const fault = await later
    .sendSignIn({ id: 'a', to: 'a@example.org', link })
    .catch((error: unknown) => error)
  t.match(fault, { code: 'UNAVAILABLE' })
  t.ok(fault instanceof MailFault && !fault.message.includes('token='))
  await later.close()
  const gone = new SmtpMailer({ url: 'smtp://127.0.0.1:1', from })
  await t.rejects(gone.sendSignIn({ id: 'a', to: 'a@example.org', link }), { code: 'UNAVAILABLE' })
  await gone.close()
})

/** A minimal relay: answers line by line and remembers the lines. */
async function startRelay(
  t: Tap,
  answers: { recipient?: string } = {},
): Promise<{ url: string; said: string[] }> {
  const said: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    let data = false
    let rest = ''
    socket.write('220 relay\r\n')
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      const lines = (rest + bytes.toString('latin1')).split('\r\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (!/^(EHLO|QUIT|DATA|RSET)/.test(line)) said.push(line)
        if (data) {
          if (line !== '.') continue
          data = false
          socket.write('250 taken\r\n')
        } else if (line === 'DATA') {
          data = true
          socket.write('354 go on\r\n')
        } else if (line.startsWith('RCPT')) socket.write(`${answers.recipient ?? '250 ok'}\r\n`)
        else socket.write('250 ok\r\n')
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `smtp://127.0.0.1:${(server.address() as { port: number }).port}`, said }
}

type Tap = { teardown(undo: () => unknown): void }
