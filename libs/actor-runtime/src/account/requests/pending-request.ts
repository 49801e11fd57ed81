/** One pending request: from its arrival to its one answer. */
import { AccountReply, type AccountRequest, type Item } from '@holdfast/wire'
import type { CodeRange } from '../../lookups/code-leases.ts'

/**
 * An encoded answer, or an object that was made for this request alone. A caller in this process
 * gets such an object without encoding.
 */
export type Answer = Uint8Array | AccountReply

export class PendingRequest {
  readonly request: AccountRequest
  readonly #answered: (answer: Answer) => void
  /** Its answer needs no encoding. */
  readonly inProcess: boolean
  #done = false

  /** Its own counters, when it asked for them. */
  legacyCodes: CodeRange | undefined
  /** Verdicts made for this request, by `passwordCheckKey`. */
  readonly verdicts = new Map<string, boolean>()
  /** It came before the epoch was raised: that alone proves its answer. */
  proven = false
  /** When its host took it, monotonic. */
  arrivedMs = 0
  slowChecks = 0
  decisions = 0

  /** @param answered called once. */
  constructor(
    request: AccountRequest,
    answered: (answer: Answer) => void,
    { inProcess = false }: { inProcess?: boolean } = {},
  ) {
    this.request = request
    this.#answered = answered
    this.inProcess = inProcess
  }

  get done(): boolean {
    return this.#done
  }

  /** No caller waits for the answer any more. */
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

  unavailable({ overloaded = false, damaged = false } = {}): void {
    this.answer({ result: { $case: 'unavailable', value: { overloaded, damaged } } })
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

/** The size of an unencoded request: an item with a long description and its tags. */
const unencodedBytes = 4 * 1024

/**
 * The size of an item or a hit in a list, also as a row of columns. Its texts are those of the
 * state.
 */
const listedBytes = 1024
/** The size of a content's id in columns. */
const idBytes = 16

/** Memory estimate of a waiting answer. */
export function bytesOfAnswer(answer: Answer): number {
  if (answer instanceof Uint8Array) return answer.length
  return unencodedBytes + listedBytes * listedIn(answer) + pageBytesOf(answer)
}

function listedIn({ result }: AccountReply): number {
  switch (result?.$case) {
    case 'content':
      return itemsBelow(result.value.item) + (result.value.files?.ids.length ?? 0) / idBytes
    case 'items':
      return result.value.items.length
    case 'search':
      return result.value.hits.length
    case 'copy':
      return result.value.results.length
    case 'manifest':
      return result.value.manifests.reduce((sum, { entries }) => sum + entries.length, 0)
    case 'held':
      return result.value.contents.length
    case 'account':
    case 'archive':
    case 'code':
    case 'directLink':
    case 'done':
    case 'file':
    case 'moved':
    case 'reconcile':
    case 'refusal':
    case 'unavailable':
    case undefined:
      return 0
  }
}

function pageBytesOf({ result }: AccountReply): number {
  return result?.$case === 'archive' ? result.value.pages.reduce((sum, { length }) => sum + length, 0) : 0
}

function itemsBelow(item: Item | undefined): number {
  let count = 0
  for (const child of item?.children ?? []) count += 1 + itemsBelow(child)
  return count
}
