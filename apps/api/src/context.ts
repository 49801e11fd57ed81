/** The long-lived parts all operations share. */

import { ShareCodeRoutes } from '@holdfast/accounts'
import { AnswerBudget, ItemPresenter } from '@holdfast/http-kit'
import type { IdCodec, MailProofs } from '@holdfast/kernel'
import { AcceptedTokens } from './accepted-tokens.ts'
import type { ApiDeps } from './deps.ts'
import { PasswordHasher } from './password-hasher.ts'

export interface ApiContext extends ApiDeps {
  ids: IdCodec
  present: ItemPresenter
  codes: ShareCodeRoutes
  tokens: AcceptedTokens
  passwords: PasswordHasher
  mailProofs: MailProofs
  /** Bytes of answers that are made and not yet read. */
  answers: AnswerBudget
  /** 32 bytes: derives an account from a client's key. */
  idempotencySecret: Uint8Array
}

export function contextOf(deps: ApiDeps): ApiContext {
  return {
    ...deps,
    ids: deps.keyring.ids,
    present: new ItemPresenter({
      downloadUrl: deps.settings.urls.download,
      serversOf: deps.serversOf,
      directUrlOf: deps.directUrlOf,
      capabilityKey: deps.keyring.derive('capability'),
    }),
    codes: new ShareCodeRoutes(deps),
    tokens: new AcceptedTokens(),
    passwords: new PasswordHasher({ work: deps.passwordWork }),
    mailProofs: deps.keyring.mailProofs,
    answers: deps.budgets?.answers ?? new AnswerBudget(),
    idempotencySecret: deps.keyring.derive('idempotency'),
  }
}
