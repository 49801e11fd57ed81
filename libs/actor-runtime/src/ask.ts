/** One request in hand: from its arrival to its one answer. */
import { AccountReply, type AccountRequest } from '@holdfast/wire'
import type { CodeRange } from './code-leases.ts'

/** Encoded, or as it was made for this request alone: then it needs no encoding where the asker is in this process. */
export type Answer = Uint8Array | AccountReply

export class Ask {
  readonly request: AccountRequest
  readonly #answered: (answer: Answer) => void
  #done = false

  /** Counters of its own, when it asked for more than a decision is shown. */
  codes: CodeRange | undefined
  legacyCodes: CodeRange | undefined
  /** Verdicts that were made for this request, by `keyOf`. */
  readonly verdicts = new Map<string, boolean>()
  slowChecks = 0
  decisions = 0

  /** @param answered called once. */
  constructor(request: AccountRequest, answered: (answer: Answer) => void) {
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
  answer(answer: Answer): void {
    if (this.#done) return
    this.#done = true
    this.#answered(answer)
  }

  refuse(status: string): void {
    this.answer({ result: { $case: 'refusal', value: { status } } })
  }

  moved(host = ''): void {
    this.answer({ result: { $case: 'moved', value: { host } } })
  }

  unavailable({ overloaded = false } = {}): void {
    this.answer({ result: { $case: 'unavailable', value: { overloaded } } })
  }
}

export function encodeReply(reply: AccountReply): Uint8Array {
  return AccountReply.encode(reply).finish()
}

export function encodedAnswer(answer: Answer): Uint8Array {
  return answer instanceof Uint8Array ? answer : encodeReply(answer)
}

export function decodedAnswer(answer: Answer): AccountReply {
  return answer instanceof Uint8Array ? AccountReply.decode(answer) : answer
}

/** Of one that is not encoded: an item with a long description and its tags. */
const unencodedBytes = 4 * 1024

/** What an answer that waits weighs. */
export function bytesOfAnswer(answer: Answer): number {
  return answer instanceof Uint8Array ? answer.length : unencodedBytes
}
