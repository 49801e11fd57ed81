/**
 * The API host: one fastify instance with all operations. Pages may be added before it is ready.
 */
import { createHttpHost, healthRoute, sharedParts } from '@holdfast/http-kit'
import type { FastifyInstance } from 'fastify'
import { contextOf } from './calls/context.ts'
import type { ApiDeps } from './calls/deps.ts'
import { documentation } from './documents/documentation.ts'
import { confirmEmail } from './operations/confirm-email.ts'
import { copyContents } from './operations/copy-contents.ts'
import { createAccount } from './operations/create-account.ts'
import { createDirectLink } from './operations/create-directlink.ts'
import { createFolder } from './operations/create-folder.ts'
import { createInvitation } from './operations/create-invitation.ts'
import { deleteContents } from './operations/delete-contents.ts'
import { deleteDirectLink } from './operations/delete-directlink.ts'
import { emptyBin } from './operations/empty-bin.ts'
import { getAccount } from './operations/get-account.ts'
import { getAccountId } from './operations/get-account-id.ts'
import { getContents } from './operations/get-contents.ts'
import { getRegions } from './operations/get-regions.ts'
import { getServers } from './operations/get-servers.ts'
import { getStatus } from './operations/get-status.ts'
import { importContents } from './operations/import-contents.ts'
import { moveContents } from './operations/move-contents.ts'
import { webArchive } from './operations/pages/web-archive.ts'
import { webContents } from './operations/pages/web-contents.ts'
import { webCopy } from './operations/pages/web-copy.ts'
import { webMove } from './operations/pages/web-move.ts'
import { webSearch } from './operations/pages/web-search.ts'
import { readBin } from './operations/read-bin.ts'
import { resetToken } from './operations/reset-token.ts'
import { restoreContents } from './operations/restore-contents.ts'
import { searchContents } from './operations/search-contents.ts'
import { updateContents } from './operations/update-contents.ts'
import { updateDirectLink } from './operations/update-directlink.ts'

const operations = [
  createFolder,
  searchContents,
  getContents,
  updateContents,
  deleteContents,
  copyContents,
  moveContents,
  importContents,
  createDirectLink,
  updateDirectLink,
  deleteDirectLink,
  createAccount,
  getAccountId,
  getAccount,
  resetToken,
  confirmEmail,
  createInvitation,
  readBin,
  restoreContents,
  emptyBin,
  webSearch,
  webContents,
  webArchive,
  webCopy,
  webMove,
  getServers,
  getRegions,
  getStatus,
]

export function createApi(deps: ApiDeps): FastifyInstance {
  const context = contextOf(deps)
  const app = createHttpHost({
    ...sharedParts(deps.budgets),
    name: 'api',
    log: deps.log,
    metrics: deps.metrics,
    trustProxy: deps.settings.trustProxy,
    cors: true,
    rateLimits: deps.rateLimits,
    isBanned: (address) => deps.blocked.blocksAddress(address),
  })
  documentation(app, deps.settings)
  app.register(async (scope) => {
    for (const operation of operations) operation(scope, context)
    healthRoute(scope, deps.readiness)
  })
  return app
}
