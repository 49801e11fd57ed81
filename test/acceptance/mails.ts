/** The outbox: one `.eml` file per mail (RFC 5322, in any transfer encoding). */
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'

export interface Mail {
  to: string
  subject: string
  /** Decoded text of all parts. */
  text: string
  /** The token of its sign-in link. */
  token: string
  /** The proof of the address, from the same link. */
  proof: string
}

/** Mails to an address, oldest first. */
export async function mailsTo(outboxes: readonly string[], address: string): Promise<Mail[]> {
  const files = (await Promise.all(outboxes.map(emlFiles))).flat()
  const mails = await Promise.all(files.map(readMail))
  return mails
    .filter((mail) => mail.to.toLowerCase().includes(address.toLowerCase()))
    .sort((a, b) => a.writtenMs - b.writtenMs)
}

async function readMail(file: string): Promise<Mail & { writtenMs: number }> {
  const [source, { mtimeMs }] = await Promise.all([readFile(file, 'utf8'), stat(file)])
  return { ...parseMail(source), writtenMs: mtimeMs }
}

async function emlFiles(outbox: string): Promise<string[]> {
  const names = await readdir(outbox).catch(() => [])
  return names
    .filter((name) => name.endsWith('.eml'))
    .sort()
    .map((name) => join(outbox, name))
}

export function parseMail(source: string): Mail {
  const [head, body] = halves(source)
  const text = partsOf(head, body).join('\n')
  return {
    to: headerOf(head, 'To'),
    subject: headerOf(head, 'Subject'),
    text,
    proof: /\/profile#token=[A-Za-z0-9_.~-]+&mailed=([A-Za-z0-9_.~-]+)/.exec(text)?.[1] ?? '',
    token: /\/profile#token=([A-Za-z0-9_.~-]+)/.exec(text)?.[1] ?? '',
  }
}

/** Decoded text of each part, in order. Each part has its own encoding. */
function partsOf(head: string, body: string): string[] {
  const boundary = /boundary="?([^";\r\n]+)/i.exec(headerOf(head, 'Content-Type'))?.[1]
  if (boundary !== undefined) {
    const parts = `\n${body}`.split(
      new RegExp(`\\r?\\n--${RegExp.escape(boundary)}(?:--)?[ \\t]*(?=\\r?\\n|$)`),
    )
    return parts.slice(1, -1).flatMap((part) => partsOf(...halves(part.replace(/^\r?\n/, ''))))
  }
  switch (headerOf(head, 'Content-Transfer-Encoding').toLowerCase()) {
    case 'quoted-printable':
      return [
        body
          .replace(/=\r?\n/g, '')
          .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
      ]
    case 'base64':
      return [Buffer.from(body, 'base64').toString()]
    default:
      return [body]
  }
}

function halves(source: string): [head: string, body: string] {
  const end = /\r?\n\r?\n/.exec(source)
  return end === null ? [source, ''] : [source.slice(0, end.index), source.slice(end.index + end[0].length)]
}

function headerOf(head: string, name: string): string {
  return new RegExp(`^${name}:\\s*(.*(?:\\r?\\n[ \\t].*)*)`, 'im').exec(head)?.[1]?.trim() ?? ''
}
