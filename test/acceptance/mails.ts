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
  const [head = '', ...rest] = source.split(/\r?\n\r?\n/)
  const header = (name: string) =>
    new RegExp(`^${name}:\\s*(.*(?:\\r?\\n[ \\t].*)*)`, 'im').exec(head)?.[1]?.trim() ?? ''
  const isQuoted = /^content-transfer-encoding:\s*quoted-printable/im.test(source)
  const text = decodedText(rest.join('\n\n'), isQuoted)
  return {
    to: header('To'),
    subject: header('Subject'),
    text,
    proof: /\/profile#token=[A-Za-z0-9_.~-]+&mailed=([A-Za-z0-9_.~-]+)/.exec(text)?.[1] ?? '',
    token: /\/profile#token=([A-Za-z0-9_.~-]+)/.exec(text)?.[1] ?? '',
  }
}

/**
 * Quoted-printable undone where a part says it is that: in a plain part the `=A4` of a link is no
 * code. Base64 parts decoded. Sufficient for a service's short mails.
 */
function decodedText(body: string, isQuoted: boolean): string {
  const plain = !isQuoted
    ? body
    : body
        .replace(/=\r?\n/g, '')
        .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
  const decoded =
    body
      .match(/^(?:[A-Za-z0-9+/=]{20,}\r?\n?)+$/gm)
      ?.map((block) => Buffer.from(block, 'base64').toString()) ?? []
  return [plain, ...decoded].join('\n')
}
