/** The operator's calls on accounts. Each change is in effect when the call is answered. */
import { isOfDomains, parseName, presentLimits, presentStatistics, RefusalError } from '@holdfast/http-kit'
import { type AccountId, idsPerListMax, isUuid } from '@holdfast/kernel'
import type { BlockLists } from '@holdfast/moderation'
import { type AccountView, type AddLegacyFolder, type HeldContent, SweepReason } from '@holdfast/wire'
import type { FastifyInstance } from 'fastify'
import { accountNamed, askAsOperator, type OperatorDeps } from '../calls.ts'
import { commandOf, objectOf } from './account-change.ts'
import { emailOf, makeAccount, type NewAccountDeps } from './new-account.ts'

const invitationDaysMax = 3650

interface NameParameters {
  Params: { name: string }
  Body: unknown
}

/** @param lists undefined: nothing is blocked. */
export function accountRoutes(
  host: FastifyInstance,
  deps: NewAccountDeps,
  lists: BlockLists | undefined,
): void {
  host.post<{ Body: unknown }>('/admin/accounts', async (request) => {
    const { email } = objectOf(request.body, 'body')
    const { accountId, token } = await makeAccount(deps, email)
    return { status: 'ok', data: { ...(await showAccount(deps, accountId)), token } }
  })

  host.post<{ Body: unknown }>('/admin/invitations', async (request) => {
    const { email: sent, days = 7 } = objectOf(request.body, 'body')
    const email = emailOf(sent)
    if (!isOfDomains(email, deps.signUpDomains)) throw new RefusalError('error-email')
    if (lists?.blocksInvitation(email)) throw new RefusalError('error-blocked')
    return { status: 'ok', data: invite(deps, { email, days: daysOf(days) }) }
  })

  const shown = async (id: AccountId) => {
    return {
      status: 'ok',
      data: { ...(await showAccount(deps, id)), blockedBy: lists?.actOf('account', id) ?? null },
    }
  }

  host.get<NameParameters>('/admin/accounts/:name', async (request) =>
    shown(await accountNamed(deps, request.params.name)),
  )

  host.post<NameParameters>('/admin/accounts/:name', async (request) => {
    const value = commandOf(request.body)
    const accountId = await accountNamed(deps, request.params.name)
    if (value !== undefined) await askAsOperator(deps, accountId, { $case: 'setAccount', value })
    return shown(accountId)
  })

  host.post<NameParameters>('/admin/accounts/:name/legacy-folder', async (request) => {
    const value = legacyFolderOf(request.body)
    const accountId = await accountNamed(deps, request.params.name)
    const result = await askAsOperator(deps, accountId, { $case: 'addLegacyFolder', value })
    const item = result.$case === 'content' ? result.value.item : undefined
    if (item === undefined)
      throw new Error(`account ${accountId} answered ${result.$case} to addLegacyFolder`)
    return { status: 'ok', data: { folderId: item.id, code: item.code ?? null } }
  })

  host.post<NameParameters>('/admin/accounts/:name/repair', async (request) => {
    const { dryRun = false } = objectOf(request.body, 'body')
    if (typeof dryRun !== 'boolean') throw new RefusalError('error-dryRun')
    const account = await accountNamed(deps, request.params.name)
    return { status: 'ok', data: await deps.repair({ account, dryRun }) }
  })

  host.get<NameParameters>('/admin/accounts/:name/deletions', async (request) => {
    const accountId = await accountNamed(deps, request.params.name)
    const result = await askAsOperator(deps, accountId, { $case: 'readHeld', value: {} })
    if (result.$case !== 'held') throw new Error(`account ${accountId} answered ${result.$case} to readHeld`)
    return { status: 'ok', data: { deletions: result.value.contents.map(presentHeld) } }
  })

  host.post<NameParameters>('/admin/accounts/:name/deletions/undo', async (request) => {
    const contentIds = contentIdsOf(objectOf(request.body, 'body').contents)
    const accountId = await accountNamed(deps, request.params.name)
    const undoing = askAsOperator(deps, accountId, { $case: 'undoSweeps', value: { contentIds } })
    const result = await undoing.catch((error: unknown) => {
      if (error instanceof RefusalError && error.status === 'error-notFound')
        throw new RefusalError('error-contents')
      throw error
    })
    if (result.$case !== 'items')
      throw new Error(`account ${accountId} answered ${result.$case} to undoSweeps`)
    const contents = result.value.items.map(({ id, name, parentFolder }) => ({ id, name, parentFolder }))
    return { status: 'ok', data: { contents } }
  })

  host.post<NameParameters>('/admin/accounts/:name/sign-in', async (request) => {
    const accountId = await accountNamed(deps, request.params.name)
    const { email } = await showAccount(deps, accountId)
    if (email.endsWith('.invalid')) throw new RefusalError('error-email')
    await askAsOperator(deps, accountId, { $case: 'sendSignIn', value: {} })
    return { status: 'ok', data: { email } }
  })
}

function invite({ keyring, clock }: NewAccountDeps, { email, days }: { email: string; days: number }) {
  const expireTime = Math.floor(clock.now() / 1000) + days * 86_400
  const invitation = keyring.invitations.of(email, expireTime)
  return { email, invitation, page: `/profile#${new URLSearchParams({ invitation, email })}`, expireTime }
}

function daysOf(sent: unknown): number {
  const days = typeof sent === 'string' && /^\d{1,4}$/.test(sent) ? Number(sent) : sent
  if (typeof days !== 'number' || !Number.isInteger(days) || days < 1 || days > invitationDaysMax)
    throw new RefusalError('error-days')
  return days
}

export async function showAccount(deps: OperatorDeps, accountId: AccountId) {
  const result = await askAsOperator(deps, accountId, { $case: 'getAccount', value: {} })
  if (result.$case !== 'account')
    throw new Error(`account ${accountId} answered ${result.$case} to getAccount`)
  return present(result.value)
}

function presentHeld({ id, isFolder, name, why, deletedTime, heldUntil, files, bytes }: HeldContent) {
  const reason = sweepReasons[why]
  return { id, type: isFolder ? 'folder' : 'file', name, why: reason, deletedTime, heldUntil, files, bytes }
}

const sweepReasons: Record<HeldContent['why'], string> = {
  [SweepReason.UNSPECIFIED]: 'unknown',
  [SweepReason.EXPIRED]: 'expired',
  [SweepReason.BIN_OVER]: 'bin',
  [SweepReason.IDLE]: 'idle',
  [SweepReason.OPERATOR]: 'operator',
  [SweepReason.UNRECOGNIZED]: 'unknown',
}

function contentIdsOf(value: unknown): string[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > idsPerListMax || !value.every(isUuid))
    throw new RefusalError('error-contents')
  return value
}

function present(view: AccountView) {
  return {
    id: view.id,
    email: view.email,
    tier: view.tier,
    premiumType: view.premiumType ?? null,
    rootFolder: view.rootFolder,
    createTime: view.createTime,
    emailConfirmed: view.emailConfirmed,
    recycleBin: { enabled: view.recycleBinEnabled, folder: view.recycleBinFolder },
    limits: presentLimits(view),
    statsCurrent: presentStatistics(view),
    directLinkCount: view.directLinkCount,
    endTime: view.endTime ?? null,
  }
}

function legacyFolderOf(body: unknown): AddLegacyFolder {
  const { noCode = false, name } = objectOf(body, 'body')
  if (typeof noCode !== 'boolean') throw new RefusalError('error-noCode')
  if (name === undefined || name === null) return { noCode, name: undefined }
  if (typeof name !== 'string' || parseName(name) === undefined) throw new RefusalError('error-name')
  return { noCode, name }
}
