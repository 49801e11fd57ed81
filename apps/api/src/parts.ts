/** The long-lived parts all operations share. */
import { ItemPresenter } from '@holdfast/http-kit'
import type { IdCodec, MailProofs } from '@holdfast/kernel'
import { AcceptedTokens } from './accepted-tokens.ts'
import type { ApiDeps } from './deps.ts'
import { PasswordHasher } from './password-hasher.ts'
import { ShareCodeRoutes } from './share-code-routes.ts'

export interface ApiParts extends ApiDeps {
  ids: IdCodec
  present: ItemPresenter
  codes: ShareCodeRoutes
  tokens: AcceptedTokens
  passwords: PasswordHasher
  mailProofs: MailProofs
  /** 32 bytes: what a client's key becomes an account with. */
  idempotencySecret: Uint8Array
}

export function partsOf(deps: ApiDeps): ApiParts {
  return {
    ...deps,
    ids: deps.keyring.ids,
    present: new ItemPresenter({
      downloadUrl: deps.settings.urls.download,
      serversOf: deps.serversOf,
      ...(deps.directUrlOf === undefined ? {} : { directUrlOf: deps.directUrlOf }),
      capabilityKey: deps.keyring.derive('capability'),
    }),
    codes: new ShareCodeRoutes(deps.lookups),
    tokens: new AcceptedTokens(),
    passwords: new PasswordHasher(),
    mailProofs: deps.keyring.mailProofs,
    idempotencySecret: deps.keyring.derive('idempotency'),
  }
}
