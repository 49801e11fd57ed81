/**
 * A call names the client's request that it is made for. The node works for that request, too: what
 * it asks of other nodes names it again.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { Metadata } from '@grpc/grpc-js'
import { type Clock, clientRequest, isClientRequest } from '@holdfast/kernel'

const requestKey = 'holdfast-request'

/** One line for each call; `pino` fits. */
export interface CallLog {
  isLevelEnabled(level: 'debug'): boolean
  debug(fields: object, message: string): void
}

export const silentLog: CallLog = { isLevelEnabled: () => false, debug() {} }

export function clientRequestHeaders(): Record<string, string> {
  const id = clientRequest()
  return id === undefined ? {} : { [requestKey]: id }
}

export function nameClientRequest(metadata: Metadata): void {
  const id = clientRequest()
  if (id !== undefined) metadata.set(requestKey, id)
}

export function clientRequestOf(headers: IncomingHttpHeaders | Metadata): string | undefined {
  const sent = headers instanceof Metadata ? headers.get(requestKey)[0] : headers[requestKey]
  return isClientRequest(sent) ? sent : undefined
}

/** Logs the calls that a node answers. */
export class CallNotes {
  readonly #log: CallLog
  readonly #clock: Clock

  constructor(log: CallLog, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /** @param call its method and path. @returns is called at its end */
  began(requestId: string | undefined, call: string): () => void {
    if (!this.#log.isLevelEnabled('debug')) return unnoted
    const beganMs = this.#clock.monotonic()
    return () => {
      const seconds = (this.#clock.monotonic() - beganMs) / 1000
      this.#log.debug({ requestId, call, seconds }, 'a node answered')
    }
  }
}

const unnoted = () => {}
