/**
 * Holding back the collectors of all storage nodes, for a backup that reads the copies after the
 * rows that name them. A node pauses for a minute at a time, so it resumes when the asking process
 * is gone.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Clock, Subscription } from '@holdfast/kernel'
import type { ClusterPart } from '../cluster-part.ts'
import { collectHoldSubjectOf } from '../subjects.ts'

interface HoldRequest {
  by: string
  /** 0 ends the pause. */
  forMs: number
}

const holdMs = 60_000
const renewMs = 10_000
/** A node that answered longer ago may soon delete again. */
const staleMs = 40_000
const askMs = 5_000
/** Passes that are under way end first. */
const patienceMs = 15 * 60_000

/** Answers requests to this node. @param hold as of the collector */
export function serveHolding(
  { bus, config }: { bus: ClusterPart['bus']; config: { nodeName: string } },
  hold: () => Promise<() => void>,
): Subscription {
  const holds = new Map<string, { isHeld: boolean; end: () => void; timer: NodeJS.Timeout }>()
  const end = (by: string) => {
    const known = holds.get(by)
    holds.delete(by)
    clearTimeout(known?.timer)
    known?.end()
  }
  const served = bus.serve(collectHoldSubjectOf(config.nodeName), async (message) => {
    const { by, forMs } = JSON.parse(Buffer.from(message).toString()) as HoldRequest
    if (forMs === 0) end(by)
    else {
      const timer = setTimeout(() => end(by), forMs)
      timer.unref()
      const known = holds.get(by)
      if (known === undefined) {
        const letGo = hold()
        const begun = { isHeld: false, end: () => void letGo.then((free) => free()), timer }
        holds.set(by, begun)
        void letGo.then(() => {
          begun.isHeld = true
        })
      } else {
        clearTimeout(known.timer)
        known.timer = timer
      }
    }
    return Buffer.from(JSON.stringify({ held: holds.get(by)?.isHeld ?? false }))
  })
  return {
    close() {
      served.close()
      for (const by of [...holds.keys()]) end(by)
    },
  }
}

/** The collectors of all nodes that are heard. */
export class HeldCollectors {
  readonly #cluster: Pick<ClusterPart, 'bus' | 'peers'>
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #by: string
  readonly #over = new AbortController()
  readonly #lost = new AbortController()
  readonly #heldMs = new Map<string, number>()
  #renewing: Promise<void> = Promise.resolve()

  private constructor(
    cluster: Pick<ClusterPart, 'bus' | 'peers'>,
    { by, clock }: { by: string; clock: Pick<Clock, 'monotonic'> },
  ) {
    this.#cluster = cluster
    this.#by = by
    this.#clock = clock
  }

  /**
   * Resolves when no node deletes.
   * @param options.by a name of this hold alone.
   * @throws Error naming the nodes that still delete after a quarter of an hour.
   */
  static async hold(
    cluster: Pick<ClusterPart, 'bus' | 'peers'>,
    options: { by: string; clock: Pick<Clock, 'monotonic'>; signal: AbortSignal },
  ): Promise<HeldCollectors> {
    const { clock, signal } = options
    const held = new HeldCollectors(cluster, options)
    const endsMs = clock.monotonic() + patienceMs
    try {
      for (;;) {
        const free = await held.#ask(holdMs)
        if (free.length === 0) break
        if (clock.monotonic() > endsMs) throw new Error(`${free.join(', ')} still collects`)
        await delay(500, undefined, { signal })
      }
    } catch (error) {
      await held.release()
      throw error
    }
    held.#renewing = held.#renew()
    return held
  }

  /** Aborted when a node that is heard may delete again. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  async release(): Promise<void> {
    this.#over.abort()
    await this.#renewing
    await this.#ask(0)
  }

  async #renew(): Promise<void> {
    const { signal } = this.#over
    while (!signal.aborted) {
      await delay(renewMs, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      await this.#ask(holdMs)
      const nowMs = this.#clock.monotonic()
      const stale = this.#nodes().filter((id) => nowMs - (this.#heldMs.get(id) ?? nowMs) > staleMs)
      if (stale.length > 0)
        this.#lost.abort(new Error(`${stale.join(', ')} did not accept the pause of collecting`))
    }
  }

  /** @returns the nodes that do not hold. */
  async #ask(forMs: number): Promise<string[]> {
    const { bus } = this.#cluster
    const question = Buffer.from(JSON.stringify({ by: this.#by, forMs } satisfies HoldRequest))
    const asked = this.#nodes().map(async (id) => {
      try {
        const askedMs = this.#clock.monotonic()
        const answer = await bus.request(collectHoldSubjectOf(id), question, { timeoutMs: askMs })
        const { held } = JSON.parse(Buffer.from(answer).toString()) as { held: boolean }
        if (held) this.#heldMs.set(id, askedMs)
        return held ? [] : [id]
      } catch {
        return [id]
      }
    })
    return (await Promise.all(asked)).flat()
  }

  #nodes(): string[] {
    return this.#cluster.peers.beats().map(({ id }) => id)
  }
}
