import type { Config, Secrets } from '@holdfast/config'
import type { Clock } from '@holdfast/kernel'
import { type Mailer, OutboxMailer, SmtpMailer } from '@holdfast/mail'

/** SMTP where it is set, else files in `folder`. */
export async function openMailer({
  config,
  secrets,
  folder,
  clock,
}: {
  config: Config
  secrets: Secrets
  folder: string
  clock: Clock
}): Promise<Mailer> {
  return secrets.smtpUrl === undefined
    ? await OutboxMailer.open({ folder, from: config.mailFrom, clock })
    : new SmtpMailer({ url: secrets.smtpUrl, from: config.mailFrom })
}
