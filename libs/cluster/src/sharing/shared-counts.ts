/**
 * Adds up the counts of all frontends. Four times a second each frontend sends the others its
 * counts of clients near a limit. No request waits for this. A lost message does no harm, because
 * the next one has the same counts.
 */

import type { Bus } from '@holdfast/bus'
import type { CountingRateLimits, ReportedCounts } from '@holdfast/http-kit'
import type { Subscription } from '@holdfast/kernel'
import { heardByAll } from '../subjects.ts'

export interface SharedCountsOptions {
  bus: Bus
  rateLimits: CountingRateLimits
  /** The name of this frontend. After a restart it has a new name, whose counts begin at 0. */
  self: string
  onFault: (error: unknown) => void
}

const sendEveryMs = 250
/** In one message; some 100 bytes each. */
const countsPerMessage = 2_000

export class SharedCounts {
  readonly #options: SharedCountsOptions
  readonly #timer: NodeJS.Timeout
  readonly #subscription: Subscription

  constructor(options: SharedCountsOptions) {
    this.#options = options
    this.#subscription = options.bus.subscribe(heardByAll.counts, (message) => this.#hear(message))
    this.#timer = setInterval(() => {
      try {
        this.#send()
      } catch (error) {
        options.onFault(error)
      }
    }, sendEveryMs)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#subscription.close()
  }

  #send(): void {
    const { bus, rateLimits, self } = this.#options
    for (const { counts, ...table } of rateLimits.countNews())
      for (let at = 0; at < counts.length; at += countsPerMessage) {
        const reported = { from: self, ...table, counts: counts.slice(at, at + countsPerMessage) }
        bus.publish(heardByAll.counts, Buffer.from(JSON.stringify(reported)))
      }
  }

  #hear(message: Uint8Array): void {
    const { rateLimits, self } = this.#options
    const reported = parse(message)
    if (reported !== undefined && reported.from !== self) rateLimits.takeCounts(reported.from, reported)
  }
}

/** Input from other processes is not trusted to be well-formed. */
function parse(message: Uint8Array): (ReportedCounts & { from: string }) | undefined {
  try {
    const reported = JSON.parse(Buffer.from(message).toString()) as Partial<ReportedCounts & { from: string }>
    const { from, windowMs, window, counts } = reported
    if (typeof from !== 'string' || !Number.isInteger(windowMs) || !Number.isInteger(window)) return undefined
    if (!Array.isArray(counts) || !counts.every(isCount)) return undefined
    return { from, windowMs: windowMs as number, window: window as number, counts }
  } catch {
    return undefined
  }
}

function isCount(count: unknown): count is [string, number] {
  return Array.isArray(count) && typeof count[0] === 'string' && Number.isInteger(count[1]) && count[1] > 0
}
