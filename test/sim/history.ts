/** The clients' requests and answers, in the order of everything observable. */
import type { AccountReply, AccountRequest } from '@holdfast/wire'

export interface AskedRequest {
  /** The cluster of the request. */
  region: object
  account: string
  request: AccountRequest
  /** Hex. */
  id: string
  invoked: number
  invokedMs: number
  /** Undefined: the outcome is unknown. */
  reply: AccountReply | undefined
  responded: number
  /** Sent more than once. */
  retried: boolean
}

export class History {
  readonly asked: AskedRequest[] = []
  readonly violations: string[] = []
  /** Share codes that were shown, with their accounts. */
  readonly codes = new Map<string, string>()
  /** From this step on no report of downloads waits for a row any more. */
  settledFrom = Number.POSITIVE_INFINITY

  violated(what: string): void {
    if (this.violations.length < 20) this.violations.push(what)
  }
}

export function isRefused(reply: AccountReply): boolean {
  return reply.result?.$case === 'refusal'
}

export function statusOf(reply: AccountReply): string {
  return reply.result?.$case === 'refusal' ? reply.result.value.status : 'ok'
}
