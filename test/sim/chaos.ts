/**
 * The faults of a cluster, drawn from the seed. Each run has some of them and not others, so that
 * none hides another.
 */

import type { LookupChange } from '@holdfast/journal'
import type { Cluster } from './cluster.ts'
import type { Dice } from './random.ts'
import type { SimProcess } from './sim-process.ts'

type Trouble =
  | 'crashes'
  | 'drains'
  | 'pauses'
  | 'cuts'
  | 'islands'
  | 'storms'
  | 'stores'
  | 'clocks'
  | 'frontends'
  | 'mail'
  | 'effects'
  | 'strays'
const troubles: Trouble[] = [
  'crashes',
  'drains',
  'pauses',
  'cuts',
  'islands',
  'storms',
  'stores',
  'clocks',
  'frontends',
  'mail',
  'effects',
  'strays',
]

export class Chaos {
  readonly #cluster: Cluster
  readonly #dice: Dice
  readonly #chosen: readonly Trouble[]
  /** Additional faults, of other parts. */
  readonly more: (() => void)[] = []

  constructor(cluster: Cluster, dice: Dice) {
    this.#cluster = cluster
    this.#dice = dice
    this.#chosen = troubles.filter(() => dice.chance(0.5))
    if (this.#chosen.includes('clocks')) cluster.skewMsMax = 2_000
    if (this.#chosen.includes('mail')) cluster.mailTrouble = 0.4
    if (this.#chosen.includes('effects')) cluster.shared.onRowsSent = (...sent) => this.#sent(...sent)
    if (this.#chosen.includes('stores'))
      cluster.usual.stores = { refused: 0.01, lost: 0.005, unanswered: 0.01, late: 0.005, slow: 0.05 }
    if (this.#chosen.includes('storms'))
      cluster.usual.network = { loss: 0.01, repeat: 0.03, slow: 0.05, slowMs: 300 }
    cluster.network.weather = cluster.usual.network
    cluster.shared.weather = cluster.usual.stores
    cluster.scheduler.note(`troubles: ${this.#chosen.join(', ')}`)
  }

  /** A fault happens every few seconds until then. */
  async run(untilMs: number): Promise<void> {
    const { scheduler } = this.#cluster
    if (this.#chosen.length === 0 && this.more.length === 0) return
    for (;;) {
      await scheduler.wait(this.#dice.between(200, 5_000))
      if (scheduler.nowMs >= untilMs) return
      const all = this.#chosen.length + this.more.length
      const at = this.#dice.roll(all)
      if (at < this.#chosen.length) this.#happen(this.#chosen[at] as Trouble)
      else this.more[at - this.#chosen.length]?.()
    }
  }

  #cut(ways: readonly [string, string][]): void {
    const { scheduler, network } = this.#cluster
    scheduler.note(`cut ${ways.map((way) => way.join('>')).join()}`)
    for (const [from, to] of ways) network.cut(from, to)
    scheduler.after(this.#dice.between(500, 15_000), () => {
      for (const [from, to] of ways) network.heal(from, to)
    })
  }

  /**
   * Some that remove a row get no answer: they are paused meanwhile, others continue with their
   * accounts.
   */
  #sent(process: SimProcess, changes: readonly LookupChange[]): boolean {
    const removes = changes.some((change) => 'delete' in change)
    if (!removes || process.paused || !this.#dice.chance(0.3)) return false
    const ms = this.#dice.between(4_000, 12_000)
    this.#pause(process, { why: ' as it removes a row', ms, monotonicStands: this.#dice.chance(0.5) })
    return this.#dice.chance(0.7)
  }

  #pause(
    process: SimProcess,
    { why = '', ms, monotonicStands }: { why?: string; ms: number; monotonicStands: boolean },
  ): void {
    const { scheduler } = this.#cluster
    scheduler.note(`${process.name} pauses${why}`)
    process.pause({ monotonicStands })
    scheduler.after(ms, () => {
      scheduler.note(`${process.name} continues`)
      process.resume()
    })
  }

  #drain(id: string): void {
    const { scheduler } = this.#cluster
    void this.#cluster
      .stopHost(id)
      .then(() => scheduler.after(this.#dice.between(0, 3_000), () => this.#cluster.startHost(id)))
  }

  /**
   * A host is paused, others get its accounts, and it has to leave when it continues: it brings
   * all of them out of memory and has not heard of their new owners.
   */
  stale(id: string): void {
    const process = this.#cluster.hosts.get(id)?.process
    if (process === undefined || process.paused) return
    // What was asked of it meanwhile has timed out by then.
    const ms = this.#dice.between(10_500, 13_000)
    this.#cluster.scheduler.after(ms, () => {
      if (process.alive && process.paused) this.#drain(id)
    })
    this.#pause(process, { why: ', and is to leave', ms, monotonicStands: this.#dice.chance(0.5) })
  }

  #happen(trouble: Trouble): void {
    const cluster = this.#cluster
    const { scheduler } = cluster
    const dice = this.#dice
    const id = dice.pick(cluster.hostIds)
    switch (trouble) {
      case 'crashes': {
        cluster.crash(id)
        scheduler.after(dice.between(100, 8_000), () => cluster.startHost(id))
        return
      }
      case 'drains': {
        this.#drain(id)
        return
      }
      case 'pauses': {
        const process = cluster.hosts.get(id)?.process
        if (process === undefined || process.paused) return
        this.#pause(process, { ms: dice.between(200, 15_000), monotonicStands: dice.chance(0.5) })
        return
      }
      case 'cuts': {
        const other = dice.pick([...cluster.hostIds, ...cluster.frontendIds, cluster.shared.id])
        const ways = dice.pick([
          [[id, other]],
          [[other, id]],
          [
            [id, other],
            [other, id],
          ],
        ]) as [string, string][]
        this.#cut(ways)
        return
      }
      case 'islands': {
        // Some see one host, some the others, some may see all; all see the stores.
        const sides = [...cluster.hostIds, ...cluster.frontendIds].map((one) => ({
          id: one,
          side: dice.roll(5) >> 1,
        }))
        const ways = sides.flatMap((one) =>
          sides.filter((two) => one.side + two.side === 1).map((two): [string, string] => [one.id, two.id]),
        )
        this.#cut(ways)
        return
      }
      case 'storms': {
        cluster.network.weather = { loss: 0.15, repeat: 0.15, slow: 0.3, slowMs: 2_000 }
        scheduler.after(dice.between(200, 4_000), () => {
          cluster.network.weather = cluster.usual.network
        })
        return
      }
      case 'stores': {
        cluster.shared.weather = { refused: 0.2, lost: 0.1, unanswered: 0.15, late: 0.1, slow: 0.3 }
        scheduler.after(dice.between(200, 4_000), () => {
          cluster.shared.weather = cluster.usual.stores
        })
        return
      }
      case 'clocks': {
        if (dice.chance(0.6)) cluster.hosts.get(id)?.process.jump(dice.between(-1_000, 1_000))
        else cluster.farClock(id, dice.between(30_000, 3_600_000), dice.between(2_000, 15_000))
        return
      }
      case 'frontends': {
        const frontend = dice.pick(cluster.frontendIds)
        cluster.crash(frontend)
        scheduler.after(dice.between(100, 2_000), () => cluster.startFrontend(frontend))
        return
      }
      case 'strays': {
        // What a permanently lost host has left, or what a replica brought back.
        const account = cluster.shared.appended.at(-1)?.account
        if (account === undefined) return
        scheduler.note(`a stray row of ${account.slice(0, 4)}`)
        const range = Buffer.from(JSON.stringify({ from: 1, to: 1 }))
        void cluster.shared.lookups.write([
          { put: 'hosts/home/gone', value: range },
          { put: `active/home/gone/1/${account}`, value: new Uint8Array() },
        ])
        return
      }
      case 'mail':
      case 'effects':
        return
    }
  }
}
