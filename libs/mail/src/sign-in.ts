/** The sign-in mail as nodemailer wants it: as text and as HTML. */
import type { Readable } from 'node:stream'
import type { SendMailOptions } from 'nodemailer'
import { MailFault } from './errors.ts'
import type { SignInMessage } from './mailer.ts'

/** Links are our own URL and a token: far below it. */
const linkCharactersMax = 900

export function signInMessage({ id, to, link }: SignInMessage, { from }: { from: string }): SendMailOptions {
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
 * The part unchanged, with the link whole on its line for readers of the file. Nodemailer would
 * encode a line over 76 characters as quoted-printable, as it does with the HTML part. Its types do
 * not know `raw` here.
 */
function asIs(type: string, content: string): Readable {
  const part = `Content-Type: ${type}; charset=us-ascii\r\nContent-Transfer-Encoding: 7bit\r\n\r\n${content}`
  return { raw: part } as unknown as Readable
}

/** False for addresses that can reach no inbox: RFC 2606 reserves the domain. */
export function reachesAnInbox(address: string): boolean {
  return !address.toLowerCase().endsWith('.invalid')
}

/**
 * One plain address: no list, no group, no comment, no quoting, nothing that could inject a header.
 */
export function isPlainAddress(address: string): boolean {
  return address.length <= 254 && /^[^\s"(),:;<>@[\\\]\p{Cc}]+@[^\s"(),:;<>@[\\\]\p{Cc}]+$/u.test(address)
}

/** Domain of the sender, for message ids: relays distrust ids without a domain. */
function domainOf(from: string): string {
  return /@([A-Za-z0-9.-]+)>?\s*$/.exec(from)?.[1] ?? 'localhost'
}

const opening = 'this link signs you in to your account:'
const paragraphs = [
  'Anyone who has this link can use the account, so keep it to yourself. It works until the account token is reset.',
  'The first time, the page asks you to confirm that this address is yours. Then it makes a new account token and mails you a new link. The earlier token stops working. If a program of yours made the account, you can keep its token there.',
  'If you did not ask for this mail, ignore it: without this link no one can confirm your address.',
]
/** RFC 5322 asks for lines of at most 78 characters. */
const lineCharactersMax = 76

function textOf(link: string): string {
  return ['Hello,', '', opening, '', link, ...paragraphs.flatMap((text) => ['', ...linesOf(text)]), ''].join(
    '\r\n',
  )
}

function linesOf(text: string): string[] {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1) as string
    if (line !== '' && line.length + 1 + word.length > lineCharactersMax) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines
}

function htmlOf(link: string): string {
  const escaped = link.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
  return [
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Your sign-in link</title>',
    '<body style="font: 16px/1.5 sans-serif">',
    `<p>Hello,</p><p>${opening}</p>`,
    `<p><a href="${escaped}">${escaped}</a></p>`,
    ...paragraphs.map((text) => `<p>${text}</p>`),
    '</body></html>',
    '',
  ].join('\r\n')
}
