/** Compares the metadata on the disk with its checksums periodically, at a bounded rate. */
import type { Config } from '@holdfast/config'
import type { LevelMetadataStore } from '@holdfast/journal-level'
import { type Clock, hourMs, pause, type Timers } from '@holdfast/kernel'
import type { Logger } from 'pino'

export interface MetadataScrubberDeps {
  metadata: Pick<LevelMetadataStore, 'scrub'>
  config: Config['scrub']
  clock: Clock
  timers: Timers
  log: Logger
}

export class MetadataScrubber {
  readonly #deps: MetadataScrubberDeps
  readonly #closing = new AbortController()
  #loop: Promise<void> | undefined
  #lastPassMs: number | undefined

  constructor(deps: MetadataScrubberDeps) {
    this.#deps = deps
  }

  /** When the last pass of this process ended, Unix seconds. The start compared everything, too. */
  get lastPass(): number | 'not yet' {
    return this.#lastPassMs === undefined ? 'not yet' : Math.floor(this.#lastPassMs / 1000)
  }

  start(): void {
    if (this.#deps.config.bytesPerSecond > 0) this.#loop ??= this.#run()
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#loop
  }

  async #run(): Promise<void> {
    const { config, clock, log, metadata } = this.#deps
    while (await this.#waits(config.restMs))
      try {
        const damage = await metadata.scrub({
          pace: (bytes) => this.#waits((bytes / config.bytesPerSecond) * 1000),
        })
        // A pass ends at the first damage. The store opens again then, and compares everything.
        if (damage === undefined && !this.#closing.signal.aborted) this.#lastPassMs = clock.now()
      } catch (err) {
        log.warn({ err }, 'the metadata could not be compared with its checksums, and will be later')
      }
  }

  /** @returns false: the service ends. */
  async #waits(ms: number): Promise<boolean> {
    const { clock, timers } = this.#deps
    const { signal } = this.#closing
    const endMs = clock.monotonic() + ms
    // A timer of more than 24.8 days ends at once.
    for (let left = ms; left > 0 && !signal.aborted; left = endMs - clock.monotonic())
      await pause(timers, Math.min(left, hourMs), signal)
    return !signal.aborted
  }
}
