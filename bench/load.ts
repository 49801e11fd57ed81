/** Closed loops of requests over several connections, and what they measured. */
import { Wire } from './wire.ts'

export interface LoadResult {
  /** Requests that ended well. */
  count: number
  errors: number
  /** Why the first of them failed; empty without one. */
  firstError: string
  seconds: number
  /** Payload bytes moved. */
  bytes: number
  /** Milliseconds. */
  p50: number
  p99: number
  /** Additional figures, by name. */
  facts?: Record<string, number>
}

export interface LoopOptions {
  url: URL
  connections: number
  /** Ends after this long, or after `requests`, whichever comes first. */
  seconds: number
  requests?: number
  /** Pieces of the n-th request; n counts over all connections. */
  pieces(n: number): Iterable<Uint8Array>
  /** Payload of one request, for the rate; `answer`: count the answer's body. */
  payloadBytes: number | 'answer'
  /** HTTP codes that also count as success. */
  ok?: readonly number[]
}

export async function loop(options: LoopOptions): Promise<LoadResult> {
  const ok = options.ok ?? [200, 206]
  const times: number[] = []
  let errors = 0
  let firstError = ''
  const failed = (why: string) => {
    errors++
    firstError ||= why
  }
  let bytes = 0
  let next = 0
  const started = performance.now()
  const ends = started + options.seconds * 1000
  async function client(): Promise<void> {
    let wire = await Wire.open(options.url)
    while (performance.now() < ends) {
      if (options.requests !== undefined && next >= options.requests) break
      const n = next++
      const from = performance.now()
      try {
        const answer = await wire.request(options.pieces(n))
        if (ok.includes(answer.status)) {
          times.push(performance.now() - from)
          bytes += options.payloadBytes === 'answer' ? answer.bytes : options.payloadBytes
        } else failed(`answer ${answer.status}`)
      } catch (error) {
        failed(String(error))
        wire.close()
        wire = await Wire.open(options.url)
      }
    }
    wire.close()
  }
  await Promise.all(Array.from({ length: options.connections }, client))
  const seconds = (performance.now() - started) / 1000
  times.sort((a, b) => a - b)
  return {
    count: times.length,
    errors,
    firstError,
    seconds,
    bytes,
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
  }
}

export function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN
}

export function median(values: readonly number[]): number {
  return quantile(
    [...values].sort((a, b) => a - b),
    0.5,
  )
}
