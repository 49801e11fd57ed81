import { asVisitor, viewOf } from '@holdfast/accounts'
import { ok, parseIds, RefusalError, withParser } from '@holdfast/http-kit'
import { archiveContentsMax, isShareCode } from '@holdfast/kernel'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { refusalsOfReading } from '../../answers/listing.ts'
import type { Call } from '../../calls/call.ts'
import type { ApiContext } from '../../calls/context.ts'
import { serve } from '../../calls/operation.ts'
import { idEntry, readerPassword } from '../../documents/schemas.ts'

/** Uses the visitors' rule for owners too. Owners get a full archive by a direct link. */
export function webArchive(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'webArchive',
    method: 'POST',
    path: '/web/contents/archive',
    summary: 'A link to a ZIP archive of a folder, or of chosen contents of one, as a visitor sees them',
    group: 'Extensions',
    token: 'none',
    body: Type.Object({ contentsId: archived, password: readerPassword }),
    answer: Type.Object({ link: Type.String({ format: 'uri', description: 'Works for an hour' }) }),
    refusals: [...refusalsOfReading, 'error-blocked'],
    async handle(call, { contentsId, password }) {
      const contentIds = await idsOf(call, contentsId)
      const accountId = accountOf(call, contentIds)
      const value = {
        contentIds,
        password: password || undefined,
        passwordVersions: [],
        versionOnly: true,
      }
      const opened = await call.askAccount(accountId, asVisitor(), { $case: 'openArchive', value })
      const view = viewOf(opened, 'archive')
      // The archive shows whether the password opens locked folders in it: a wrong one is a guess.
      if (view.locked && view.passwordVersions.length === 0) await call.guesses.wrong('password')
      return ok({ link: context.present.archiveLink(contentIds, view, call.nowSeconds) })
    },
  })
}

const archived = withParser(
  Type.String({
    description: `A folder's UUID or share code, or up to ${archiveContentsMax} comma-separated UUIDs of contents of one folder`,
  }),
  (sent: string) => (isShareCode(sent) ? [sent] : idsIn(sent)),
  {
    pattern: `^(${idEntry}(,${idEntry}){0,${archiveContentsMax - 1}}|[0-9A-Za-z]{8}|[0-9A-Za-z]{6})$`,
    minLength: 6,
  },
)

function idsIn(sent: string): string[] | undefined {
  const ids = parseIds(sent)
  return ids !== undefined && ids.length <= archiveContentsMax ? ids : undefined
}

async function idsOf(call: Call, names: readonly string[]): Promise<string[]> {
  return await Promise.all(names.map((name) => call.contentNamed(name)))
}

/** @throws RefusalError error-notFound for an unknown id, error-contentsId for several accounts */
function accountOf(call: Call, contentIds: readonly string[]) {
  const accounts = new Set(contentIds.map((id) => call.context.ids.accountOf(id)))
  const [account] = accounts
  if (account === undefined || accounts.has(undefined)) throw new RefusalError('error-notFound')
  if (accounts.size > 1) throw new RefusalError('error-contentsId')
  return account
}
