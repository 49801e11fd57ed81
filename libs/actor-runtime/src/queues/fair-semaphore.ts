/**
 * A bounded number of concurrent jobs. The rest waits, and networks and folders take turns.
 *
 * One network must not displace the others, with any number of folders; and many networks that try
 * one folder must not displace the readers of others. So every other place goes to the network that
 * was served longest ago, and the places between to the folder. When too many wait, the youngest of
 * the network that has most of them is refused; when no network has more than one, the youngest of
 * the folder that has most.
 */
import { RecentMap } from '@holdfast/kernel'

/** Networks and folders whose last turn is remembered; a forgotten one comes first. */
const rememberedMax = 20_000

export interface Lane {
  network: string
  folder: string
}

type Kind = keyof Lane

interface LaneWaiter extends Lane {
  admit: (admitted: boolean) => void
}

export class FairSemaphore {
  #free: number
  readonly #waitingMax: number
  /** In order of arrival; few enough to be searched each time. */
  readonly #waiting: LaneWaiter[] = []
  readonly #served = {
    network: new RecentMap<string, number>({ max: rememberedMax }),
    folder: new RecentMap<string, number>({ max: rememberedMax }),
  }
  #turn = 0

  constructor({ atOnceMax, waitingMax }: { atOnceMax: number; waitingMax: number }) {
    this.#free = atOnceMax
    this.#waitingMax = waitingMax
  }

  /** @returns undefined when it was refused. */
  async run<T>(lane: Lane, work: () => Promise<T>): Promise<T | undefined> {
    if (!(await this.#enter(lane))) return undefined
    try {
      return await work()
    } finally {
      this.#leave()
    }
  }

  async #enter({ network, folder }: Lane): Promise<boolean> {
    if (this.#free > 0) {
      this.#free--
      this.#note({ network, folder })
      return true
    }
    return await new Promise((admit) => {
      this.#waiting.push({ network, folder, admit })
      if (this.#waiting.length > this.#waitingMax) this.#sendOneAway()
    })
  }

  #leave(): void {
    const next = this.#next()
    if (next === undefined) this.#free++
    else {
      this.#waiting.splice(this.#waiting.indexOf(next), 1)
      this.#note(next)
      next.admit(true)
    }
  }

  #note({ network, folder }: Lane): void {
    this.#turn++
    this.#served.network.set(network, this.#turn)
    this.#served.folder.set(folder, this.#turn)
  }

  #next(): LaneWaiter | undefined {
    const [first, second]: [Kind, Kind] = this.#turn % 2 === 0 ? ['network', 'folder'] : ['folder', 'network']
    let next: LaneWaiter | undefined
    for (const waiting of this.#waiting) {
      const isNext =
        next === undefined ||
        (this.#compare(waiting, next, first) || this.#compare(waiting, next, second)) < 0
      if (isNext) next = waiting
    }
    return next
  }

  #compare(a: LaneWaiter, b: LaneWaiter, kind: Kind): number {
    return (this.#served[kind].get(a[kind]) ?? 0) - (this.#served[kind].get(b[kind]) ?? 0)
  }

  #sendOneAway(): void {
    const largest = this.#largest('network')
    const away = largest.count > 1 ? largest.youngest : this.#largest('folder').youngest
    this.#waiting.splice(this.#waiting.indexOf(away), 1)
    away.admit(false)
  }

  #largest(kind: Kind): { count: number; youngest: LaneWaiter } {
    const counts = new Map<string, number>()
    let largest = { count: 0, youngest: this.#waiting[0] as LaneWaiter }
    for (const waiting of this.#waiting) {
      const count = (counts.get(waiting[kind]) ?? 0) + 1
      counts.set(waiting[kind], count)
      if (count >= largest.count) largest = { count, youngest: waiting }
    }
    return largest
  }
}
