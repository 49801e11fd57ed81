/**
 * The real content tree, recording when each request was decided: an answer may depend on the
 * deciding host's clock. And who decided what may wait for a row: it can be lost with its owner.
 */

import type { AccountState, AccountStates } from '@holdfast/content-tree'
import { hex } from '@holdfast/kernel'
import type { AccountRequest } from '@holdfast/wire'

/** By request id (hex): the deciding clocks' milliseconds. */
export type DecisionTimes = Map<string, Set<number>>

export interface WaitingRequest {
  /** The id of the request, hex. */
  id: string
  account: string
}

export function observed(
  states: AccountStates,
  { decided, waits }: { decided: DecisionTimes; waits: (change: WaitingRequest) => void },
): AccountStates {
  const note = (request: AccountRequest, nowMs: number) => {
    const key = hex(request.requestId)
    const times = decided.get(key) ?? new Set()
    decided.set(key, times.add(nowMs))
  }
  return wrapped(states, (state, account) => ({
    decide(request, context) {
      note(request, context.nowMs)
      const outcome = state.decide(request, context)
      if (outcome.kind === 'change' && outcome.mayWait) waits({ id: hex(request.requestId), account })
      return outcome
    },
  }))
}

/**
 * Every change is a large one: the loop turns before it is applied, and twice before the runtime
 * learns of it.
 */
export function sliced(states: AccountStates): AccountStates {
  return wrapped(states, (state) => ({
    *applying(change) {
      yield
      yield* state.applying(change)
      yield
      yield
    },
  }))
}

/** States that behave like the given ones except for the overrides. */
export function wrapped(
  states: AccountStates,
  around: (
    state: AccountState,
    account: string,
  ) => Partial<Pick<AccountState, 'decide' | 'applying' | 'effects'>>,
): AccountStates {
  const wrap = (state: AccountState, account: string): AccountState => {
    const { decide, applying, effects } = around(state, account)
    return {
      decide: decide ?? ((request, context) => state.decide(request, context)),
      apply: (change) => state.apply(change),
      applying: applying ?? ((change) => state.applying(change)),
      checkpoint: (base) => state.checkpoint(base),
      changedBytes: (mark) => state.changedBytes(mark),
      effects: effects ?? ((after, through) => state.effects(after, through)),
      salvage: (change) => state.salvage(change),
      forgetCodes: () => state.forgetCodes(),
      codeBlocks: (from) => state.codeBlocks(from),
      get email() {
        return state.email
      },
      get nextCode() {
        return state.nextCode
      },
      get lastEffect() {
        return state.lastEffect
      },
      nextDue: () => state.nextDue(),
      get bytes() {
        return state.bytes
      },
      get metadataBytes() {
        return state.metadataBytes
      },
      get exists() {
        return state.exists
      },
    }
  }
  return {
    empty: (account) => wrap(states.empty(account), account),
    *load(account, pages) {
      return wrap(yield* states.load(account, pages), account)
    },
    newIds: (account, randoms) => states.newIds(account, randoms),
  }
}
