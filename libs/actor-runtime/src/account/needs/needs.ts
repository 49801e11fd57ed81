/** Inputs that a decision needs: share codes, and results of password checks. */
import type { Outcome } from '@holdfast/content-tree'
import type { PasswordVerifier } from '@holdfast/wire'
import { legacyCodesCounter } from '../../lookups/lookup-rows.ts'
import { passwordCheckKey } from '../../queues/password-checks.ts'
import type { Services } from '../../services.ts'
import { clientNetworkOf } from '../requests/mailbox.ts'
import type { PendingRequest } from '../requests/pending-request.ts'
import type { CodeBlocks } from './code-blocks.ts'

export type Needs = Extract<Outcome, { kind: 'needs' }>

/**
 * The request gets what it needs.
 * @returns the status when it is refused instead.
 * @throws what the lookups throw.
 */
export async function fetchNeeds(
  ask: PendingRequest,
  needs: Needs,
  { services, codes }: { services: Services; codes: CodeBlocks },
): Promise<string | undefined> {
  const { lookups, bounds } = services
  if ((needs.codes ?? 0) > bounds.codesPerRequestMax) return 'error-limits'
  if (needs.codes) await codes.lease(needs.codes)
  if (needs.legacyCodes) {
    const next = await lookups.take(legacyCodesCounter, needs.legacyCodes)
    ask.legacyCodes = { next, end: next + needs.legacyCodes }
  }
  for (const { verifier, password } of needs.verdicts ?? []) {
    if (await checkPassword(ask, { verifier, password }, services)) continue
    return 'error-rateLimit'
  }
  return undefined
}

/**
 * @returns false: too many checks wait. Beyond the request's own bound passwords count as wrong
 *   unchecked.
 */
async function checkPassword(
  ask: PendingRequest,
  { verifier, password }: { verifier: PasswordVerifier; password: string },
  { passwords, bounds }: Services,
): Promise<boolean> {
  let verdict = passwords.known(verifier, password)
  if (verdict === undefined) {
    verdict =
      ++ask.slowChecks > bounds.passwordChecksPerRequestMax
        ? false
        : await passwords.verdict(verifier, password, clientNetworkOf(ask.request))
  }
  if (verdict === undefined) return false
  ask.verdicts.set(passwordCheckKey(verifier, password), verdict)
  return true
}
