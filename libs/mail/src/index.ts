export type { MailFaultCode } from './errors.ts'
export type { Mailer, SignInMessage } from './mailer.ts'
export { OutboxMailer } from './outbox-mailer.ts'
export { SmtpMailer } from './smtp-mailer.ts'
