/** Operations on the account itself. */
import { isTime } from '@holdfast/kernel'
import type { ConfirmEmail, CreateAccount, ResetToken, SetAccount } from '@holdfast/wire'
import { type AccountRecord, accountView, isTier, withSet } from '../account/record.ts'
import { recordOfNew } from '../apply.ts'
import type { Outcome } from '../contract.ts'
import { lifetimesOf } from './lifetimes.ts'
import { answer, done, type RequestContext, type Result, refuse } from './request-context.ts'
import { dueEvents, notesUses } from './tick.ts'

export function authenticate(deciding: RequestContext): Outcome {
  if (!deciding.viewer.isOwner) return refuse('error-token')
  return answer(ofAccount(deciding.accountView()))
}

export function getAccount(deciding: RequestContext): Outcome {
  if (!deciding.viewer.isOwner) return refuse('error-notOwner')
  return answer(ofAccount(deciding.accountView()))
}

export function createAccount(deciding: RequestContext, command: CreateAccount): Outcome {
  const created = newAccount(deciding, command)
  const view = accountView(created.record, deciding.settings, {
    rootId: created.rootId,
    binId: created.binId,
    totals: { files: 0, folders: 0, bytes: 0 },
    directLinkCount: 0,
  })
  return deciding.changed(created.events, ofAccount(view))
}

/** The events that create an account. */
export function newAccount(deciding: RequestContext, command: CreateAccount) {
  const rootId = deciding.context.newId()
  const binId = deciding.context.newId()
  const value = {
    id: deciding.account.id,
    rootId,
    binId,
    email: command.email,
    tokenKeyId: command.tokenKeyId,
    createTime: deciding.now,
  }
  const mail = { $case: 'signInRequested', value: { time: deciding.now } } as const
  const record = recordOfNew(value)
  return {
    rootId,
    binId,
    record,
    events: [
      { $case: 'accountCreated', value } as const,
      ...(lifetimesOf(record, deciding.settings).idleSeconds === undefined ? [] : [notesUses(deciding.now)]),
      ...(command.email === undefined ? [] : [mail]),
    ],
  }
}

export function resetToken(deciding: RequestContext, command: ResetToken): Outcome {
  if (!deciding.viewer.isOwner) return refuse('error-notOwner')
  const { tokenCounter, email } = deciding.account.known
  const reset = {
    $case: 'tokenReset',
    value: { tokenKeyId: command.tokenKeyId, tokenCounter: tokenCounter + 1 },
  } as const
  const mail = { $case: 'signInRequested', value: { time: deciding.now } } as const
  return deciding.changed(email === undefined ? [reset] : [reset, mail], done)
}

/**
 * The first time, the token is replaced unless its owner keeps it, and the new one is mailed, too.
 * A confirmed address stays confirmed, and nothing changes.
 */
export function confirmEmail(deciding: RequestContext, command: ConfirmEmail): Outcome {
  if (!deciding.viewer.isOwner) return refuse('error-notOwner')
  const { known } = deciding.account
  if (known.email === undefined) return refuse('error-email')
  if (known.emailConfirmed) return answer(ofAccount(deciding.accountView()))
  const confirmed = { $case: 'emailConfirmed', value: {} } as const
  const record = { ...known, emailConfirmed: true }
  if (command.keepToken) return deciding.changed([confirmed], ofAccount(deciding.accountView(record)))
  const value = { tokenKeyId: command.tokenKeyId, tokenCounter: known.tokenCounter + 1 }
  const mail = { $case: 'signInRequested', value: { time: deciding.now } } as const
  return deciding.changed(
    [confirmed, { $case: 'tokenReset', value }, mail],
    ofAccount(deciding.accountView({ ...record, ...value })),
  )
}

export function setAccount(deciding: RequestContext, command: SetAccount): Outcome {
  const { viewer, account } = deciding
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
  const change = isBack ? { ...command, idleFrom: deciding.now } : command
  const record: AccountRecord = withSet(known, change)
  // Due timers are handled by the tier at their due time. A deleted account has none.
  const due = record.tier === known.tier || known.endTime !== undefined ? [] : dueEvents(deciding)
  const set = { $case: 'accountSet', value: { set: change } } as const
  const result: Result | (() => Result) =
    due.length === 0 ? ofAccount(deciding.accountView(record)) : () => ofAccount(deciding.accountView())
  return deciding.changed([...due, set], result)
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
export function sendSignIn(deciding: RequestContext): Outcome {
  if (!deciding.viewer.isOwner) return refuse('error-notOwner')
  if (deciding.account.known.email === undefined) return answer(done)
  return deciding.changed([{ $case: 'signInRequested', value: { time: deciding.now } }], done)
}

export function ofAccount(view: ReturnType<typeof accountView>): Result {
  return { $case: 'account', value: view }
}
