/**
 * When a process reads rows again of which all processes hold a copy.
 *
 * A change is announced on the bus, and its rows are read at once. They can arrive in this region
 * after their announcement, so for ten seconds they are read every two seconds. Later reads only
 * find lost announcements: every tenth second is enough. Each read costs a query here and two
 * wake-ups of Cassandra; every process of an idle cluster does it (`bench/NOTES-cluster.md`).
 */

import type { Bus } from '@holdfast/bus'
import type { Subscription } from '@holdfast/kernel'

const tickMs = 2_000
/** Ticks with a read after the start and after an announcement. */
const ticksAfterChange = 5
/** While nothing is announced, every fifth tick has a read. */
const quietTicks = 5

export class RereadTimer {
  readonly #plan = new RereadPlan()
  readonly #timer: NodeJS.Timeout
  readonly #subscription: Subscription

  /** @param read must not throw. */
  constructor({ bus, subject, read }: { bus: Bus; subject: string; read: () => void }) {
    this.#timer = setInterval(() => {
      if (this.#plan.isDue()) read()
    }, tickMs)
    this.#subscription = bus.subscribe(subject, () => {
      this.#plan.announced()
      read()
    })
  }

  close(): void {
    clearInterval(this.#timer)
    this.#subscription.close()
  }
}

/** Which ticks have a read. */
export class RereadPlan {
  #soon = ticksAfterChange
  #quiet = 0

  announced(): void {
    this.#soon = ticksAfterChange
  }

  /** Called once a tick. */
  isDue(): boolean {
    if (this.#soon > 0) {
      this.#soon--
      this.#quiet = 0
      return true
    }
    this.#quiet = (this.#quiet + 1) % quietTicks
    return this.#quiet === 0
  }
}
