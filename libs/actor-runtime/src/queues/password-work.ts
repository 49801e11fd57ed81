/**
 * Slow hashes of passwords, a bounded number at one time: networks and folders in turn, in threads
 * that nothing else uses.
 */
import { defaultRuntimeBounds, type RuntimeBounds } from '../bounds.ts'
import { FairSemaphore, type Lane } from './fair-semaphore.ts'
import { type Derivation, ScryptThreads } from './scrypt-threads.ts'

export class PasswordWork {
  readonly #turns: FairSemaphore
  readonly #threads = new ScryptThreads()

  constructor(
    bounds: Pick<RuntimeBounds, 'passwordChecksAtOnceMax' | 'passwordChecksQueuedMax'> = defaultRuntimeBounds,
  ) {
    this.#turns = new FairSemaphore({
      atOnceMax: bounds.passwordChecksAtOnceMax,
      waitingMax: bounds.passwordChecksQueuedMax,
    })
  }

  /** @returns undefined when too many wait, and this one was refused. */
  run<T>(lane: Lane, work: () => Promise<T>): Promise<T | undefined> {
    return this.#turns.run(lane, work)
  }

  /** A key by scrypt. Only in a turn, which bounds the threads. */
  derive(asked: Derivation): Promise<Buffer> {
    return this.#threads.derive(asked)
  }
}
