/**
 * How many placement groups of a region have which copies, for alerts. It is what `ctl status`
 * says, counted.
 */
import { Gauge, type Registry } from 'prom-client'

/** What `ctl status` says about a group. */
export interface ToldGroup {
  full: boolean
  copies: { home: number; wanted: { home: number } }
  limited: readonly string[] | undefined
}

const groupStates = ['full', 'lacking', 'limited', 'regional'] as const
export type GroupState = (typeof groupStates)[number]

export function stateOf({ full, copies, limited }: ToldGroup): GroupState {
  if (!full) return 'lacking'
  if (copies.home < copies.wanted.home) return 'limited'
  return limited === undefined ? 'full' : 'regional'
}

/**
 * The states as they were asked last. Reading them starts the next round: storage nodes that give
 * no answer delay no scrape.
 */
export class GroupFigures {
  readonly #ask: () => Promise<readonly ToldGroup[] | undefined>
  #asking = false
  #last: Record<GroupState, number> | undefined

  /** @param ask undefined: it cannot be known now */
  constructor(ask: () => Promise<readonly ToldGroup[] | undefined>) {
    this.#ask = ask
  }

  read(): Record<GroupState, number> | undefined {
    if (!this.#asking) void this.#refresh()
    return this.#last
  }

  async #refresh(): Promise<void> {
    this.#asking = true
    try {
      const groups = await this.#ask()
      const states = groups?.map(stateOf)
      this.#last =
        states &&
        (Object.fromEntries(
          groupStates.map((state) => [state, states.filter((one) => one === state).length]),
        ) as Record<GroupState, number>)
    } catch {
      this.#last = undefined
    } finally {
      this.#asking = false
    }
  }
}

export function groupMetrics(registry: Registry, figures: Pick<GroupFigures, 'read'>): void {
  new Gauge({
    name: 'holdfast_placement_groups',
    help: 'Placement groups of the region of an API frontend, as the last scrape found them. full: with every copy. lacking: copies are missing that the storage nodes allow. limited: the region has too few storage nodes for two copies. regional: no other region has storage nodes.',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [state, count] of Object.entries(figures.read() ?? {})) this.set({ state }, count)
    },
  })
}
