/** What clients asked and were answered, in the order of everything observable. */
import type { AccountReply, AccountRequest } from '@holdfast/wire'

export interface Asked {
  /** The cluster it was asked in. */
  region: object
  account: string
  request: AccountRequest
  /** Hex. */
  id: string
  invoked: number
  invokedMs: number
  /** Undefined: nobody knows what became of it. */
  reply: AccountReply | undefined
  responded: number
  /** Sent more than once. */
  retried: boolean
}

export class History {
  readonly asked: Asked[] = []
  readonly violations: string[] = []
  /** Share codes that were shown, with whose they are. */
  readonly codes = new Map<string, string>()

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
