/**
 * `GET /download/archive/<name>?c=<capability>`: a folder, or chosen contents of one, as a ZIP
 * archive by the rule for visitors.
 *
 * The account is asked for every request: what a visitor may not read any more is left out, and
 * closed contents that the capability names close the archive. The name in the path has no effect.
 */
import { type ArchiveCapability, verifyArchiveCapability } from '@holdfast/access'
import { ask, asVisitor, viewOf } from '@holdfast/accounts'
import { RefusalError } from '@holdfast/http-kit'
import type { AccountId } from '@holdfast/kernel'
import type { ArchiveView } from '@holdfast/wire'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { DownloadContext } from '../context.ts'
import { sendArchive } from './send-archive.ts'

export async function visitorArchive(
  context: DownloadContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const capability = capabilityOf(context, request)
  const [first = '', ...others] = capability.contentIds
  const accountId = context.keyring.ids.accountOf(first)
  if (accountId === undefined) throw new RefusalError('error-notFound')
  const { blocked } = context
  const open = async (versionOnly: boolean) => {
    // Read before the account is asked: if content is blocked meanwhile, the next request gets
    // another version.
    const blockedVersion = blocked.version
    const view = await openArchive(context, request, { accountId, capability, versionOnly })
    return { ...view, version: Buffer.concat([view.version, Buffer.from(` ${blockedVersion}`)]) }
  }
  const { version } = await open(true)
  const archive = nameOf(capability)
  return sendArchive(context, request, reply, {
    accountId,
    contentIds: [first, ...others],
    link: archive,
    traffic: 'web',
    folder: archive,
    version,
    take: () => open(false),
    leavesOut: (blobId) => blocked.blocksBlob(blobId),
  })
}

/** @throws RefusalError error-notFound when there is none, or it is over. */
function capabilityOf({ capabilityKey, clock }: DownloadContext, request: FastifyRequest): ArchiveCapability {
  const { c } = request.query as Record<string, unknown>
  const now = Math.floor(clock.now() / 1000)
  const capability = typeof c === 'string' ? verifyArchiveCapability(capabilityKey, c, now) : undefined
  if (capability === undefined) throw new RefusalError('error-notFound')
  return capability
}

async function openArchive(
  context: DownloadContext,
  request: FastifyRequest,
  {
    accountId,
    capability: { contentIds, passwordVersions },
    versionOnly,
  }: { accountId: AccountId; capability: ArchiveCapability; versionOnly: boolean },
): Promise<ArchiveView> {
  const value = {
    contentIds: [...contentIds],
    password: undefined,
    passwordVersions: passwordVersions.map((salt) => Buffer.from(salt)),
    versionOnly,
  }
  const result = await ask(context, {
    accountId,
    who: asVisitor(),
    operation: { $case: 'openArchive', value },
    clientNetwork: context.rateLimits.networkKey(request),
  })
  return viewOf(result, 'archive')
}

/** The same contents under the same passwords are the same archive, also by a newer link. */
function nameOf({ contentIds, passwordVersions }: ArchiveCapability): string {
  const salts = passwordVersions.map((salt) => Buffer.from(salt).toString('base64url'))
  return `visitors ${contentIds.join(',')} ${salts.join(',')}`
}
