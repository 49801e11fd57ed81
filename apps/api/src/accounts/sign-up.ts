/** Who may make an account by `POST /accounts`. */
import { isOfDomains } from '@holdfast/http-kit'
import type { ApiContext } from '../calls/context.ts'

/** @param asked as sent, checked for its form alone */
export function maySignUp(
  { blocked, clock, keyring, settings }: ApiContext,
  { email, invitation }: { email: string | undefined; invitation: string | undefined },
): boolean {
  const { mode, domains } = settings.signUp
  if (mode === 'closed') return false
  if (email === undefined) return mode === 'open'
  if (!isOfDomains(email, domains)) return false
  if (mode === 'open') return true
  if (invitation === undefined || blocked.blocksInvitation(email)) return false
  const nowSeconds = Math.floor(clock.now() / 1000)
  return keyring.invitations.holds(invitation, { email, nowSeconds })
}
