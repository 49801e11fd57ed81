/** The real content tree, with a note of when each request was decided: what an answer says may depend on the deciding host's clock. */
import type { AccountState, AccountStates, DecideContext, Outcome } from '@holdfast/content-tree'
import type { AccountRequest } from '@holdfast/wire'

/** By request id (hex): the deciding clocks' milliseconds. */
export type Decided = Map<string, Set<number>>

export function observed(states: AccountStates, decided: Decided): AccountStates {
  const note = (request: AccountRequest, nowMs: number) => {
    const key = Buffer.from(request.requestId).toString('hex')
    const times = decided.get(key) ?? new Set()
    decided.set(key, times.add(nowMs))
  }
  return wrapped(states, (state) => ({
    decide(request, context) {
      note(request, context.nowMs)
      return state.decide(request, context)
    },
  }))
}

/** States that behave as the given ones but for `decide`. */
export function wrapped(
  states: AccountStates,
  around: (state: AccountState) => { decide(request: AccountRequest, context: DecideContext): Outcome },
): AccountStates {
  const wrap = (state: AccountState): AccountState => {
    const { decide } = around(state)
    return {
      decide,
      apply: (change) => state.apply(change),
      applying: (change) => state.applying(change),
      checkpoint: () => state.checkpoint(),
      effects: (after) => state.effects(after),
      nextDue: () => state.nextDue(),
      get bytes() {
        return state.bytes
      },
      get exists() {
        return state.exists
      },
    }
  }
  return {
    empty: (account) => wrap(states.empty(account)),
    *load(account, pages) {
      return wrap(yield* states.load(account, pages))
    },
  }
}
