/** One request in hand: from its arrival to its one answer. */
import { AccountReply, type AccountRequest } from '@holdfast/wire'
import type { CodeRange } from './code-leases.ts'

export class Ask {
  readonly request: AccountRequest
  readonly #answered: (reply: Uint8Array) => void
  #done = false

  /** Counters of its own, when it asked for more than a decision is shown. */
  codes: CodeRange | undefined
  legacyCodes: CodeRange | undefined
  /** Verdicts that were made for this request, by `keyOf`. */
  readonly verdicts = new Map<string, boolean>()
  slowChecks = 0
  decisions = 0

  /** @param answered called once, with an encoded AccountReply. */
  constructor(request: AccountRequest, answered: (reply: Uint8Array) => void) {
    this.request = request
    this.#answered = answered
  }

  get done(): boolean {
    return this.#done
  }

  /** Nobody waits for the answer any more. */
  expired(nowMs: number): boolean {
    return this.request.deadlineMs <= nowMs
  }

  /** The first answer counts. */
  answer(reply: Uint8Array): void {
    if (this.#done) return
    this.#done = true
    this.#answered(reply)
  }

  refuse(status: string): void {
    this.answer(encodeReply({ result: { $case: 'refusal', value: { status } } }))
  }

  moved(host = ''): void {
    this.answer(encodeReply({ result: { $case: 'moved', value: { host } } }))
  }

  unavailable({ overloaded = false } = {}): void {
    this.answer(encodeReply({ result: { $case: 'unavailable', value: { overloaded } } }))
  }
}

export function encodeReply(reply: AccountReply): Uint8Array {
  return AccountReply.encode(reply).finish()
}
