/** Every case of the suite, slow ones first so that they run beside the others. */
import { accountDetails, createAccounts, getId, resetToken } from './cases/accounts.ts'
import { answers } from './cases/answers.ts'
import { archives } from './cases/archives.ts'
import { caps } from './cases/caps.ts'
import { copy, importing, move } from './cases/copy-move-import.ts'
import { createFolder } from './cases/create-folder.ts'
import { remove } from './cases/delete.ts'
import { changeLinks, makeLinks, openLinks, removeLinks } from './cases/direct-links.ts'
import { downloads } from './cases/downloads.ts'
import { expiry } from './cases/expiry.ts'
import { clients, extensions, mail } from './cases/extensions.ts'
import { listing } from './cases/listing.ts'
import { moderation } from './cases/moderation.ts'
import { operator } from './cases/operator.ts'
import { rateLimits } from './cases/rate-limits.ts'
import { recycleBin } from './cases/recycle-bin.ts'
import { search } from './cases/search.ts'
import { orderOfChecks, tokens } from './cases/tokens.ts'
import { update } from './cases/update.ts'
import { uploadRefusals } from './cases/upload-refusals.ts'
import { uploads } from './cases/uploads.ts'
import { visitorArchives } from './cases/visitor-archives.ts'
import { visitors } from './cases/visitors.ts'
import type { Case } from './suite.ts'

export const allCases: readonly Case[] = [
  ...rateLimits,
  ...expiry,
  ...extensions,
  ...mail,
  ...clients,
  ...openLinks,
  ...archives,
  ...visitorArchives,
  ...listing,
  ...visitors,
  ...downloads,
  ...uploads,
  ...uploadRefusals,
  ...search,
  ...caps,
  ...createAccounts,
  ...getId,
  ...accountDetails,
  ...resetToken,
  ...tokens,
  ...orderOfChecks,
  ...answers,
  ...createFolder,
  ...update,
  ...remove,
  ...copy,
  ...move,
  ...importing,
  ...makeLinks,
  ...changeLinks,
  ...removeLinks,
  ...recycleBin,
  ...operator,
  ...moderation,
]
