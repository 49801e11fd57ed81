import { viewOf } from '@holdfast/accounts'
import { isOfDomains, ok, parseEmail, RefusalError, withParser } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { accountPath, refuseOtherAccount } from '../accounts/own-account.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { emailDocument } from './create-account.ts'

/** How long an invitation is valid: one week. A long weekend without mail does not end it. */
const invitationSeconds = 7 * 86_400

/** Answers with a link, which the member sends to the address. Nothing is stored or mailed. */
export function createInvitation(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'createInvitation',
    method: 'POST',
    path: '/accounts/:accountId/invitations',
    summary: 'Invite an address: its link lets it make an account within seven days',
    group: 'Extensions',
    description: 'For accounts with an address. Needed where `HOLDFAST_SIGNUP=invite`; no mail is sent.',
    token: 'needed',
    params: Type.Object(accountPath),
    body: Type.Object({ email: withParser(Type.String({ maxLength: 320 }), parseEmail, emailDocument) }),
    answer: Type.Object({
      email: Type.String(),
      invitation: Type.String({ description: 'For POST /accounts with this address' }),
      link: Type.String({ description: 'The page that makes the account' }),
      expireTime: Type.Integer({ description: 'Unix seconds' }),
    }),
    refusals: ['error-blocked', 'error-forbidden'],
    async handle(call, { accountId, email }) {
      await refuseOtherAccount(call, accountId)
      const { tier } = viewOf(await call.askOwn({ $case: 'getAccount', value: {} }), 'account')
      const { mode, domains } = context.settings.signUp
      if (tier === 'guest' || mode === 'closed' || !isOfDomains(email, domains))
        throw new RefusalError('error-forbidden')
      if (context.blocked.blocksInvitation(email)) throw new RefusalError('error-blocked')
      const expireTime = Math.floor(context.clock.now() / 1000) + invitationSeconds
      const invitation = context.keyring.invitations.of(email, expireTime)
      const fragment = new URLSearchParams({ invitation, email })
      const link = `${context.settings.urls.web}/profile#${fragment}`
      return ok({ email, invitation, link, expireTime })
    },
  })
}
