/**
 * The network between processes: messages are late, lost, repeated, overtaken; pairs are cut, in
 * one direction or both.
 */

import { type Bus, BusFault, maxMessageBytes } from '@holdfast/bus'
import type { Subscription } from '@holdfast/kernel'
import type { Dice } from './random.ts'
import type { SimProcess } from './sim-process.ts'

export interface Weather {
  loss: number
  repeat: number
  /** Chance of a message to take up to `slowMs`. */
  slow: number
  slowMs: number
}

export const calm: Weather = { loss: 0, repeat: 0, slow: 0, slowMs: 0 }

/** One way, ms. */
const quickMs = { least: 0.1, most: 1 }

export class Network {
  readonly #dice: Dice
  readonly #cut = new Set<string>()
  weather: Weather = calm

  constructor(dice: Dice) {
    this.#dice = dice
  }

  cut(from: string, to: string): void {
    this.#cut.add(`${from} ${to}`)
  }

  heal(from: string, to: string): void {
    this.#cut.delete(`${from} ${to}`)
  }

  healAll(): void {
    this.#cut.clear()
  }

  isCut(from: string, to: string): boolean {
    return this.#cut.has(`${from} ${to}`)
  }

  /** The delays of the copies of a message; empty: it is lost. */
  fates(from: string, to: string): number[] {
    const { loss, repeat } = this.weather
    const lost = this.#dice.chance(loss)
    const count = this.#dice.chance(repeat) ? 2 : 1
    const delays = Array.from({ length: count }, () => this.delay())
    return lost || this.isCut(from, to) ? [] : delays
  }

  delay(): number {
    const { slow, slowMs } = this.weather
    const ms = this.#dice.between(quickMs.least, quickMs.most)
    return this.#dice.chance(slow) ? ms + this.#dice.between(0, slowMs) : ms
  }

  send(from: SimProcess, to: SimProcess, arrive: () => void): void {
    if (!from.alive) return
    for (const ms of this.fates(from.id, to.id)) to.deliver(ms, arrive)
  }
}

interface SimServer {
  process: SimProcess
  handler: (message: Uint8Array) => Promise<Uint8Array>
}

/** Which process serves what, as the bus' servers know it. */
export class Exchange {
  readonly network: Network
  readonly servings = new Map<string, SimServer[]>()
  /** Sees each message as it reaches its server, and may answer it; for planted faults. */
  intercept: (
    at: SimProcess,
    sent: { subject: string; message: Uint8Array },
    answer: (bytes: Uint8Array) => void,
  ) => void = () => {}

  constructor(network: Network) {
    this.network = network
  }

  /** A process died: the servers notice that its connections are closed. */
  drop(process: SimProcess): void {
    for (const [subject, servings] of this.servings)
      this.servings.set(
        subject,
        servings.filter((serving) => serving.process !== process),
      )
  }
}

export class SimBus implements Bus {
  readonly #process: SimProcess
  readonly #exchange: Exchange
  #closed = false

  constructor(process: SimProcess, exchange: Exchange) {
    this.#process = process
    this.#exchange = exchange
  }

  request(
    subject: string,
    message: Uint8Array,
    { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<Uint8Array> {
    if (message.length > maxMessageBytes)
      return Promise.reject(new BusFault('TOO_LARGE', `${message.length} bytes`))
    if (this.#closed) return Promise.reject(new BusFault('CLOSED', 'the bus is closed'))
    if (signal?.aborted) return Promise.reject(new BusFault('CANCELLED', 'cancelled'))
    const { network } = this.#exchange
    const serving = this.#exchange.servings.get(subject)?.at(-1)
    return new Promise((resolve, reject) => {
      const cancel = this.#process.after(timeoutMs, () =>
        reject(new BusFault('TIMEOUT', `no answer from ${subject}`)),
      )
      const answered = (answer: Uint8Array) => {
        cancel()
        resolve(answer)
      }
      if (serving === undefined) {
        this.#process.deliver(network.delay(), () => {
          cancel()
          reject(new BusFault('NO_RESPONDERS', `no process serves ${subject}`))
        })
        return
      }
      network.send(this.#process, serving.process, () =>
        this.#serve(serving, { subject, message: Buffer.from(message) }, answered),
      )
    })
  }

  #serve(
    { process, handler }: SimServer,
    sent: { subject: string; message: Uint8Array },
    answered: (answer: Uint8Array) => void,
  ): void {
    const send = (answer: Uint8Array) => {
      const copy = Buffer.from(answer)
      this.#exchange.network.send(process, this.#process, () => answered(copy))
    }
    this.#exchange.intercept(process, sent, send)
    handler(sent.message).then(send, (error: unknown) => {
      process.scheduler.note(`${process.name} handler failed: ${(error as Error).stack}`)
    })
  }

  serve(subject: string, handler: SimServer['handler']): Subscription {
    const serving = { process: this.#process, handler }
    const { servings } = this.#exchange
    servings.set(subject, [...(servings.get(subject) ?? []), serving])
    return {
      close: () =>
        void servings.set(
          subject,
          (servings.get(subject) ?? []).filter((other) => other !== serving),
        ),
    }
  }

  /** Nothing here publishes: members hear of each other by separate messages. */
  publish(): void {
    throw new Error('not simulated')
  }

  subscribe(): Subscription {
    throw new Error('not simulated')
  }

  async close(): Promise<void> {
    this.#closed = true
  }
}
