/** The long-lived parts all operations share. */

import { ShareCodeRoutes } from '@holdfast/accounts'
import { AnswerBudget, ItemPresenter } from '@holdfast/http-kit'
import type { IdCodec, MailProofs } from '@holdfast/kernel'
import { AcceptedTokens } from '../accounts/accepted-tokens.ts'
import { PasswordHasher } from '../accounts/password-hasher.ts'
import type { ApiDeps } from './deps.ts'

export interface ApiContext extends ApiDeps {
  ids: IdCodec
  present: ItemPresenter
  codes: ShareCodeRoutes
  tokens: AcceptedTokens
  passwords: PasswordHasher
  mailProofs: MailProofs
  /** Bytes of answers that are made and not yet read. */
  answers: AnswerBudget
  /** Answers of accounts with thousands of items, as objects. */
  views: AnswerBudget
  /** 32 bytes: derives an account from a client's key. */
  idempotencySecret: Uint8Array
}

/**
 * An item takes several hundred bytes as an object, so an answer of ten thousand takes as much as
 * its JSON. Eight such answers at a time are enough: they are made one after the other.
 */
const viewsBytesMax = 64 * 1024 * 1024
/** A slice of 256 KiB at the pace of other answers. */
const viewStalledMs = 20_000

export function contextOf(deps: ApiDeps): ApiContext {
  const unmeasured = { metrics: undefined, clock: deps.clock }
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
    answers: deps.budgets?.answers ?? new AnswerBudget(unmeasured),
    // Without metrics: they would have the same names as those of `answers`.
    views: new AnswerBudget(unmeasured, {
      bytesMax: viewsBytesMax,
      stalledMs: viewStalledMs,
      paceBytes: Infinity,
    }),
    idempotencySecret: deps.keyring.derive('idempotency'),
  }
}
