/**
 * Bans of one frontend apply at all of a region, and elsewhere within a second: each sends its new
 * ones twice a second, all of them every ten seconds, and lifted ones at once. Requests do not wait
 * for this exchange.
 */

import type { Bus } from '@holdfast/bus'
import type { Ban, CountingRateLimits } from '@holdfast/http-kit'
import type { Subscription } from '@holdfast/kernel'
import { heardByAll } from '../subjects.ts'

export interface SharedBansOptions {
  bus: Bus
  rateLimits: CountingRateLimits
  onFault: (error: unknown) => void
}

const sendEveryMs = 500
const sendAllEveryMs = 10_000
/** Bans per message. A ban takes about 80 bytes. */
const bansPerMessage = 1_000

type BansMessage = { bans?: Ban[]; lifted?: string }

export class SharedBans {
  readonly #bus: Bus
  readonly #rateLimits: CountingRateLimits
  readonly #subscription: Subscription
  readonly #timers: NodeJS.Timeout[]
  /** When the sent bans end, by network. */
  #reported = new Map<string, number>()

  constructor({ bus, rateLimits, onFault }: SharedBansOptions) {
    this.#bus = bus
    this.#rateLimits = rateLimits
    this.#subscription = bus.subscribe(heardByAll.bans, (message) => this.#hear(message))
    const guarded = (work: () => void) => () => {
      try {
        work()
      } catch (error) {
        onFault(error)
      }
    }
    this.#timers = [
      setInterval(
        guarded(() => this.#send(this.#news())),
        sendEveryMs,
      ),
      setInterval(
        guarded(() => this.#send(rateLimits.bans())),
        sendAllEveryMs,
      ),
    ]
  }

  /** Here and everywhere. @returns false when no ban was known here. */
  lift(network: string): boolean {
    const lifted = this.#rateLimits.liftBan(network)
    this.#publish({ lifted: network })
    return lifted
  }

  close(): void {
    for (const timer of this.#timers) clearInterval(timer)
    this.#subscription.close()
  }

  #news(): Ban[] {
    const bans = this.#rateLimits.bans()
    const news = bans.filter(({ network, untilMs }) => this.#reported.get(network) !== untilMs)
    this.#reported = new Map(bans.map(({ network, untilMs }) => [network, untilMs]))
    return news
  }

  #send(bans: readonly Ban[]): void {
    for (let at = 0; at < bans.length; at += bansPerMessage)
      this.#publish({ bans: bans.slice(at, at + bansPerMessage) })
  }

  #publish(reported: BansMessage): void {
    this.#bus.publish(heardByAll.bans, Buffer.from(JSON.stringify(reported)))
  }

  #hear(message: Uint8Array): void {
    const { bans = [], lifted } = parse(message)
    if (lifted !== undefined) this.#rateLimits.liftBan(lifted)
    this.#rateLimits.takeBans(bans)
    for (const { network, untilMs } of bans) this.#reported.set(network, untilMs)
  }
}

/** Input from other processes is not trusted to be well-formed. */
function parse(message: Uint8Array): BansMessage {
  try {
    const { bans, lifted } = JSON.parse(Buffer.from(message).toString()) as Partial<
      Record<keyof BansMessage, unknown>
    >
    return {
      ...(Array.isArray(bans) ? { bans: bans.filter(isBan) } : {}),
      ...(typeof lifted === 'string' ? { lifted } : {}),
    }
  } catch {
    return {}
  }
}

function isBan(value: Partial<Ban> | null): value is Ban {
  return typeof value?.network === 'string' && Number.isFinite(value.untilMs) && Number.isInteger(value.times)
}
