/** Operations on the account itself. */
import { isTier, isTime } from '@holdfast/kernel'
import type { ConfirmEmail, CreateAccount, ResetToken, SetAccount } from '@holdfast/wire'
import { type AccountRecord, accountView, withSet } from '../account/record.ts'
import { recordOfNew } from '../apply.ts'
import type { Outcome } from '../contract.ts'
import { lifetimesOf } from './lifetimes.ts'
import { answer, done, type RequestContext, type Result, refuse } from './request-context.ts'
import { dueEvents, notesUses } from './tick.ts'

export function authenticate(context: RequestContext): Outcome {
  if (!context.viewer.isOwner) return refuse('error-token')
  return answer(ofAccount(context.accountView()))
}

export function getAccount(context: RequestContext): Outcome {
  if (!context.viewer.isOwner) return refuse('error-notOwner')
  return answer(ofAccount(context.accountView()))
}

export function createAccount(context: RequestContext, command: CreateAccount): Outcome {
  const created = newAccount(context, command)
  const view = accountView(created.record, context.settings, {
    rootId: created.rootId,
    binId: created.binId,
    totals: { files: 0, folders: 0, bytes: 0 },
    directLinkCount: 0,
  })
  return context.changed(created.events, ofAccount(view))
}

/** The events that create an account. */
export function newAccount(context: RequestContext, command: CreateAccount) {
  const rootId = context.inputs.newId()
  const binId = context.inputs.newId()
  const value = {
    id: context.account.id,
    rootId,
    binId,
    email: command.email,
    tokenKeyId: command.tokenKeyId,
    createTime: context.now,
  }
  const mail = { $case: 'signInRequested', value: { time: context.now } } as const
  const record = recordOfNew(value)
  return {
    rootId,
    binId,
    record,
    events: [
      { $case: 'accountCreated', value } as const,
      ...(lifetimesOf(record, context.settings).idleSeconds === undefined ? [] : [notesUses(context.now)]),
      ...(command.email === undefined ? [] : [mail]),
    ],
  }
}

export function resetToken(context: RequestContext, command: ResetToken): Outcome {
  if (!context.viewer.isOwner) return refuse('error-notOwner')
  const { tokenCounter, email } = context.account.known
  const reset = {
    $case: 'tokenReset',
    value: { tokenKeyId: command.tokenKeyId, tokenCounter: tokenCounter + 1 },
  } as const
  const mail = { $case: 'signInRequested', value: { time: context.now } } as const
  return context.changed(email === undefined ? [reset] : [reset, mail], done)
}

/**
 * The first time, the token is replaced unless its owner keeps it, and the new one is mailed, too.
 * A confirmed address stays confirmed, and nothing changes.
 */
export function confirmEmail(context: RequestContext, command: ConfirmEmail): Outcome {
  if (!context.viewer.isOwner) return refuse('error-notOwner')
  const { known } = context.account
  if (known.email === undefined) return refuse('error-email')
  if (known.emailConfirmed) return answer(ofAccount(context.accountView()))
  const confirmed = { $case: 'emailConfirmed', value: {} } as const
  const record = { ...known, emailConfirmed: true }
  if (command.keepToken) return context.changed([confirmed], ofAccount(context.accountView(record)))
  const value = { tokenKeyId: command.tokenKeyId, tokenCounter: known.tokenCounter + 1 }
  const mail = { $case: 'signInRequested', value: { time: context.now } } as const
  return context.changed(
    [confirmed, { $case: 'tokenReset', value }, mail],
    ofAccount(context.accountView({ ...record, ...value })),
  )
}

export function setAccount(context: RequestContext, command: SetAccount): Outcome {
  const { viewer, account } = context
  if (!viewer.isOwner) return refuse('error-notOwner')
  if (viewer.kind === 'bearer' && !setsBinAlone(command)) return refuse('error-forbidden')
  if (command.tier !== undefined && !isTier(command.tier)) return refuse('error-tier')
  for (const [name, limit] of [
    ['contents', command.limitContents],
    ['storage', command.limitStorage],
  ] as const)
    if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 0)) return refuse(`error-${name}`)
  const { known } = account
  if (command.endTime !== undefined && !(isTime(command.endTime) && command.endTime >= 0))
    return refuse('error-endTime')
  const isBack = command.clearEndTime && known.endTime !== undefined && known.idleFrom !== undefined
  const change = isBack ? { ...command, idleFrom: context.now } : command
  const record: AccountRecord = withSet(known, change)
  // Due timers are handled by the tier at their due time. A deleted account has none.
  const due = record.tier === known.tier || known.endTime !== undefined ? [] : dueEvents(context)
  const set = { $case: 'accountSet', value: { set: change } } as const
  const result: Result | (() => Result) =
    due.length === 0 ? ofAccount(context.accountView(record)) : () => ofAccount(context.accountView())
  return context.changed([...due, set], result)
}

function setsBinAlone(command: SetAccount): boolean {
  return (
    command.tier === undefined &&
    command.idleFrom === undefined &&
    command.premiumType === undefined &&
    command.limitContents === undefined &&
    command.limitStorage === undefined &&
    command.endTime === undefined &&
    !command.clearEndTime &&
    !command.clearLimits &&
    !command.clearLimitContents &&
    !command.clearLimitStorage
  )
}

/** A guest's address reaches no inbox: nothing is sent. */
export function sendSignIn(context: RequestContext): Outcome {
  if (!context.viewer.isOwner) return refuse('error-notOwner')
  if (context.account.known.email === undefined) return answer(done)
  return context.changed([{ $case: 'signInRequested', value: { time: context.now } }], done)
}

export function ofAccount(view: ReturnType<typeof accountView>): Result {
  return { $case: 'account', value: view }
}
