/**
 * What frontends count is added up: four times a second each sends the others its counts of clients
 * near a limit. No request waits for any of it; the next count repeats what was lost.
 */

import type { Bus } from '@holdfast/bus'
import type { CountingRateLimits, ToldCounts } from '@holdfast/http-kit'
import type { Subscription } from '@holdfast/kernel'
import { heardByAll } from '../subjects.ts'

export interface SharedCountsOptions {
  bus: Bus
  rateLimits: CountingRateLimits
  /** The name of this frontend. In its next life it has a new one, whose counts begin at 0. */
  self: string
  onFault: (error: unknown) => void
}

const tellMs = 250
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
        this.#tell()
      } catch (error) {
        options.onFault(error)
      }
    }, tellMs)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#subscription.close()
  }

  #tell(): void {
    const { bus, rateLimits, self } = this.#options
    for (const { counts, ...table } of rateLimits.countNews())
      for (let at = 0; at < counts.length; at += countsPerMessage) {
        const told = { from: self, ...table, counts: counts.slice(at, at + countsPerMessage) }
        bus.publish(heardByAll.counts, Buffer.from(JSON.stringify(told)))
      }
  }

  #hear(message: Uint8Array): void {
    const { rateLimits, self } = this.#options
    const told = parse(message)
    if (told !== undefined && told.from !== self) rateLimits.takeCounts(told.from, told)
  }
}

/** Input from other processes is not trusted to be well-formed. */
function parse(message: Uint8Array): (ToldCounts & { from: string }) | undefined {
  try {
    const told = JSON.parse(Buffer.from(message).toString()) as Partial<ToldCounts & { from: string }>
    const { from, windowMs, window, counts } = told
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
