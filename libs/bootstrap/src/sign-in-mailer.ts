/**
 * From an effect of an account (a sign-in mail) to the input of a mailer (an address and a link).
 */
import { createHash } from 'node:crypto'
import type { SignInMailer } from '@holdfast/actor-runtime'
import type { AccountId, Keyring } from '@holdfast/kernel'
import type { Mailer } from '@holdfast/mail'

export function signInMailer({
  mailer,
  keyring,
  webUrl,
}: {
  mailer: Mailer
  keyring: Keyring
  webUrl: string
}): SignInMailer {
  return {
    async send({ id, accountId, email, tokenKeyId, tokenCounter }) {
      // Made again each time: the token is stored nowhere, not even in pending mails.
      const token = keyring.tokens.token(accountId as AccountId, { keyId: tokenKeyId, counter: tokenCounter })
      const mailed = keyring.mailProofs.of(Buffer.from(token, 'base64url'))
      const link = `${webUrl}/profile#token=${token}&mailed=${mailed}`
      await mailer.sendSignIn({ id: idOfMail(id), to: email, link })
    },
  }
}

/** A name for files and Message-IDs: equal for repeats, revealing nothing about the account. */
function idOfMail(id: string): string {
  return createHash('sha256').update(id).digest('hex').slice(0, 32)
}
