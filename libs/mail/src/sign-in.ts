/** The sign-in mail as nodemailer wants it: as text and as HTML. */
import type { Readable } from 'node:stream'
import type { SendMailOptions } from 'nodemailer'
import { MailFault } from './errors.ts'
import type { SignInMail } from './mailer.ts'

/** Links are our own URL and a token: far below it. */
const linkCharactersMax = 900

export function signInMessage({ id, to, link }: SignInMail, { from }: { from: string }): SendMailOptions {
  if (!/^[\x21-\x7e]+$/.test(link) || link.length > linkCharactersMax)
    throw new MailFault(
      'REFUSED',
      `mail ${id}: the link is not plain ASCII of at most ${linkCharactersMax} characters`,
    )
  return {
    from,
    to: { name: '', address: to },
    subject: 'Your sign-in link',
    messageId: `<${id}@${domainOf(from)}>`,
    headers: { 'Auto-Submitted': 'auto-generated' },
    text: asIs('text/plain', textOf(link)),
    html: htmlOf(link),
    disableFileAccess: true,
    disableUrlAccess: true,
  }
}

/**
 * The part as it is, with the link whole on its line, whoever reads the file. Composed by nodemailer, a line over 76 characters would become
 * quoted-printable, as the HTML part does. Its types do not know `raw` here.
 */
function asIs(type: string, content: string): Readable {
  const part = `Content-Type: ${type}; charset=us-ascii\r\nContent-Transfer-Encoding: 7bit\r\n\r\n${content}`
  return { raw: part } as unknown as Readable
}

/** False for addresses that can reach no inbox: RFC 2606 reserves the domain. */
export function reachesAnInbox(address: string): boolean {
  return !address.toLowerCase().endsWith('.invalid')
}

/** One plain address: no list, no group, no comment, no quoting, nothing that a header could be made of. */
export function isPlainAddress(address: string): boolean {
  return address.length <= 254 && /^[^\s"(),:;<>@[\\\]\p{Cc}]+@[^\s"(),:;<>@[\\\]\p{Cc}]+$/u.test(address)
}

/** Of the sender, for ids of messages: relays distrust those that name nobody. */
function domainOf(from: string): string {
  return /@([A-Za-z0-9.-]+)>?\s*$/.exec(from)?.[1] ?? 'localhost'
}

function textOf(link: string): string {
  return [
    'Hello,',
    '',
    'this link signs you in to your account:',
    '',
    link,
    '',
    'Whoever has the link has the account: keep it to yourself. It works until the',
    'account token is reset. If you did not ask for this mail, ignore it.',
    '',
  ].join('\r\n')
}

function htmlOf(link: string): string {
  const escaped = link.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
  return [
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Your sign-in link</title>',
    '<body style="font: 16px/1.5 sans-serif">',
    '<p>Hello,</p><p>this link signs you in to your account:</p>',
    `<p><a href="${escaped}">${escaped}</a></p>`,
    '<p>Whoever has the link has the account: keep it to yourself. It works until the account token is reset.',
    'If you did not ask for this mail, ignore it.</p>',
    '</body></html>',
    '',
  ].join('\r\n')
}
