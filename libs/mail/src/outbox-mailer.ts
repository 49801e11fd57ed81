/**
 * Mails as files, for installations without a relay, and for tests: `<folder>/<time>-<id>.eml`,
 * sorted by name, whole or absent.
 */
import { open, rename, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, makeDirectories } from '@holdfast/kernel'
import nodemailer from 'nodemailer'
import { MailFault } from './errors.ts'
import type { Mailer, SignInMessage } from './mailer.ts'
import { isPlainAddress, reachesAnInbox, signInMessage } from './sign-in.ts'

export interface OutboxOptions {
  folder: string
  /** Sender. */
  from: string
  clock: Clock
}

export class OutboxMailer implements Mailer {
  readonly #folder: string
  readonly #from: string
  readonly #clock: Clock
  /**
   * Mails are written one at a time, so the later file has the newer token. Senders bound the
   * queue.
   */
  #last: Promise<void> = Promise.resolve()
  #lastMs = 0
  readonly #composer = nodemailer.createTransport({ streamTransport: true, buffer: true, newline: 'windows' })

  private constructor({ folder, from, clock }: OutboxOptions) {
    this.#folder = folder
    this.#from = from
    this.#clock = clock
  }

  /** Makes the folder, readable by its owner alone: its files open accounts. */
  static async open(options: OutboxOptions): Promise<OutboxMailer> {
    await makeDirectories(options.folder)
    return new OutboxMailer(options)
  }

  async sendSignIn(mail: SignInMessage): Promise<void> {
    if (!reachesAnInbox(mail.to)) return
    if (!isPlainAddress(mail.to) || !/^[A-Za-z0-9-]{1,100}$/.test(mail.id))
      throw new MailFault('REFUSED', 'the mail names no plain address or no plain id')
    const composed = this.#composer.sendMail(signInMessage(mail, { from: this.#from }))
    const written = this.#last.then(async () =>
      this.#write(this.#nameOf(mail), (await composed).message as Buffer),
    )
    this.#last = written.catch(() => {})
    await written
  }

  /** Unique and rising: the order of names is the order of sending, also within a millisecond. */
  #nameOf(mail: SignInMessage): string {
    this.#lastMs = Math.max(this.#clock.now(), this.#lastMs + 1)
    return `${new Date(this.#lastMs).toISOString().replace(/[-:]/g, '')}-${mail.id}.eml`
  }

  async close(): Promise<void> {
    this.#composer.close()
  }

  /** A reader that lists `*.eml` never sees half a mail; an acknowledged mail is on disk. */
  async #write(name: string, bytes: Buffer): Promise<void> {
    const path = join(this.#folder, name)
    const unfinished = `${path}.tmp`
    try {
      await writeSynced(unfinished, bytes)
      await rename(unfinished, path)
      await syncFolder(this.#folder)
    } catch (error) {
      await unlink(unfinished).catch(() => {})
      throw new MailFault('UNAVAILABLE', `the outbox cannot be written: ${(error as Error).message}`, {
        cause: error,
      })
    }
  }
}

async function writeSynced(path: string, bytes: Buffer): Promise<void> {
  await using file = await open(path, 'w', 0o600)
  await file.writeFile(bytes)
  await file.sync()
}

async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r')
  await folder.sync()
}
