/**
 * Each call carries the id of the client's request that it belongs to. The node that answers the
 * call sends the same id with its own calls to other nodes.
 */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { Metadata } from '@grpc/grpc-js'
import {
  type Clock,
  clientRequest,
  forClientRequest,
  inSpan,
  isClientRequest,
  type Tracer,
  traceparent,
  traceparentOf,
} from '@holdfast/kernel'

const requestKey = 'holdfast-request'
const traceKey = 'traceparent'

/** One line for each call; `pino` fits. */
export interface CallLog {
  isLevelEnabled(level: 'debug'): boolean
  debug(fields: object, message: string): void
}

export function clientRequestHeaders(): Record<string, string> {
  const [id, parent] = [clientRequest(), traceparent()]
  return {
    ...(id === undefined ? {} : { [requestKey]: id }),
    ...(parent === undefined ? {} : { [traceKey]: parent }),
  }
}

export function nameClientRequest(metadata: Metadata): void {
  const id = clientRequest()
  if (id !== undefined) metadata.set(requestKey, id)
  const parent = traceparent()
  if (parent !== undefined) metadata.set(traceKey, parent)
}

function sentAs(key: string, headers: IncomingHttpHeaders | Metadata): unknown {
  return headers instanceof Metadata ? headers.get(key)[0] : headers[key]
}

/** Logs and traces the calls that a node answers. */
export class CallNotes {
  readonly #log: CallLog
  readonly #clock: Clock
  readonly #tracer: Tracer | undefined

  constructor({ log, clock, tracer }: { log: CallLog; clock: Clock; tracer: Tracer | undefined }) {
    this.#log = log
    this.#clock = clock
    this.#tracer = tracer
  }

  /**
   * Runs the work as part of the client's request and of the span that the headers name.
   *
   * @param call.name its method and path. @param call.kind the same without names of blobs
   * @param call.response its end is that of the call; default: the end of the work
   */
  async answering<T>(
    headers: IncomingHttpHeaders | Metadata,
    { name, kind, response }: { name: string; kind: () => string; response?: ServerResponse },
    work: () => Promise<T>,
  ): Promise<T> {
    const sent = sentAs(requestKey, headers)
    const requestId = isClientRequest(sent) ? sent : undefined
    const noted = this.#began(requestId, name)
    response?.once('close', noted)
    try {
      return await forClientRequest(requestId, () => {
        if (this.#tracer === undefined) return work()
        const parent = traceparentOf(sentAs(traceKey, headers))
        return inSpan(this.#tracer, { name: `node ${kind()}`, parent }, work)
      })
    } finally {
      if (response === undefined) noted()
    }
  }

  #began(requestId: string | undefined, call: string): () => void {
    if (!this.#log.isLevelEnabled('debug')) return unnoted
    const beganMs = this.#clock.monotonic()
    return () => {
      const seconds = (this.#clock.monotonic() - beganMs) / 1000
      this.#log.debug({ requestId, call, seconds }, 'a node answered')
    }
  }
}

const unnoted = () => {}
