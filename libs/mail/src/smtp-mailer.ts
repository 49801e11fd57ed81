/** Mails through a relay (nodemailer). It keeps few connections; every wait has a limit. */
import { createTransport, type Mail } from 'nodemailer'
import { MailFault } from './errors.ts'
import type { Mailer, SignInMessage } from './mailer.ts'
import { isPlainAddress, reachesAnInbox, signInMessage } from './sign-in.ts'

const connectionsMax = 2
/** A relay that does not answer in this time counts as down. */
const connectTimeoutMs = 10_000
/** RFC 5321 §4.5.3.2 allows minutes; a retry is cheaper than a mail that is stuck that long. */
const silenceTimeoutMs = 60_000

export class SmtpMailer implements Mailer {
  readonly #transport: Pick<Mail, 'sendMail' | 'close'>
  readonly #from: string

  /**
   * @param url `smtp://` or `smtps://`, with credentials if the relay needs them. Connects at the
   *   first mail.
   */
  constructor({ url, from }: { url: string; from: string }) {
    this.#from = from
    this.#transport = createTransport({
      url,
      pool: true,
      maxConnections: connectionsMax,
      connectionTimeout: connectTimeoutMs,
      greetingTimeout: connectTimeoutMs,
      socketTimeout: silenceTimeoutMs,
    })
  }

  async sendSignIn(mail: SignInMessage): Promise<void> {
    if (!reachesAnInbox(mail.to)) return
    if (!isPlainAddress(mail.to)) throw new MailFault('REFUSED', 'the mail names no plain address')
    const message = signInMessage(mail, { from: this.#from })
    try {
      await this.#transport.sendMail(message)
    } catch (error) {
      throw faultOfRelay(error as SmtpError)
    }
  }

  async close(): Promise<void> {
    this.#transport.close()
  }
}

interface SmtpError extends Error {
  code?: string
  responseCode?: number
}

/**
 * Only the relay's answer about this recipient or message is final; an operator repairs a bad login
 * or a dead relay.
 */
function faultOfRelay(error: SmtpError): MailFault {
  const final =
    (error.code === 'EENVELOPE' || error.code === 'EMESSAGE') &&
    error.responseCode !== undefined &&
    error.responseCode >= 500
  // The relay's answer may repeat the address, never the text.
  return new MailFault(final ? 'REFUSED' : 'UNAVAILABLE', `the relay did not take a mail: ${error.message}`, {
    cause: error,
  })
}
