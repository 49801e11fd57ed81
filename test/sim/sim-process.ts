/**
 * One life of one process: its clock, its timers, and the gate for everything from outside. A
 * killed process receives nothing more and does nothing more: every promise it waits for stays
 * pending. A paused one receives everything late.
 */
import type { LoopTimers } from '@holdfast/actor-runtime'
import type { Clock } from '@holdfast/kernel'
import type { Dice } from './random.ts'
import type { Scheduler } from './scheduler.ts'

export class SimProcess implements Clock, LoopTimers {
  readonly id: string
  readonly life: number
  readonly scheduler: Scheduler
  readonly dice: Dice
  alive = true
  #paused = false
  readonly #held: (() => void)[] = []
  /** Wall clock relative to the true one, ms. */
  #skewMs: number
  #pausedAtMs = 0
  /** Time that its monotonic clock did not see. */
  #missedMs = 0
  #missing = false

  constructor(
    id: string,
    { life, scheduler, dice, skewMs }: { life: number; scheduler: Scheduler; dice: Dice; skewMs: number },
  ) {
    this.id = id
    this.life = life
    this.scheduler = scheduler
    this.dice = dice
    this.#skewMs = skewMs
  }

  get name(): string {
    return `${this.id}#${this.life}`
  }

  get paused(): boolean {
    return this.#paused
  }

  now(): number {
    return Math.floor(this.scheduler.nowMs + this.#skewMs)
  }

  monotonic(): number {
    return this.scheduler.elapsedMs - this.#missedMs + 1e6
  }

  jump(ms: number): void {
    this.#skewMs += ms
  }

  settleClock(): void {
    this.#skewMs = 0
  }

  after(ms: number, run: () => void): () => void {
    // Never early: the clock then shows that the time has come.
    return this.deliver(ms + 0.001, run)
  }

  turn(): Promise<void> {
    return this.wait(0)
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.deliver(ms, resolve))
  }

  /**
   * Delivers something to this life of the process after a delay, unless the life is over by then.
   * @returns cancels it.
   */
  deliver(ms: number, run: () => void): () => void {
    let cancelled = false
    const arrive = () => {
      if (cancelled || !this.alive) return
      if (this.#paused) this.#held.push(arrive)
      else run()
    }
    const cancel = this.scheduler.after(ms, arrive)
    return () => {
      cancelled = true
      cancel()
    }
  }

  kill(): void {
    this.alive = false
    this.#held.length = 0
  }

  /** @param monotonicStands as in a virtual machine that is stopped whole. */
  pause({ monotonicStands }: { monotonicStands: boolean }): void {
    this.#paused = true
    this.#pausedAtMs = this.scheduler.elapsedMs
    this.#missing = monotonicStands
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    if (this.#missing) this.#missedMs += this.scheduler.elapsedMs - this.#pausedAtMs
    // One after the other, each with what follows from it.
    for (const arrive of this.#held.splice(0)) this.scheduler.after(0, arrive)
  }
}
