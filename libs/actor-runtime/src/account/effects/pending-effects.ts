/**
 * The pending effects of one active account, carried out outside of its turn: references of
 * released blobs, sign-in mails.
 *
 * An effect comes here once the change that made it is durable, is retried until it is done, and is
 * then reported by its number for the journal. All of them may run twice. A blob that is used again
 * withdraws its release. A delete that is running then, or that an earlier owner still sends, never
 * removes the later reference: its write time is lower.
 *
 * Only the owner checks references without a pending effect, and in two steps. The candidates are
 * named in the turn that read the state (`look`). No reference is deleted until that look is over.
 * So a restored reference is put before its delete, and an unclaimed one is deleted only if the
 * account did not start to use its blob since.
 */
import { type LookupChange, referenceKey } from '@holdfast/journal'
import { backoffMs, type Fault } from '@holdfast/kernel'
import type { Blob, Effect, SignInMail } from '@holdfast/wire'
import type { Services } from '../../services.ts'
import { Pauses } from '../../timers.ts'
import type { WriteTimes } from '../rows/account-rows.ts'
import { namedRequests } from './effect-causes.ts'

/** Memory of one release: its key of 150 characters, its numbers and their places in maps. */
const releaseBytes = 512

interface Release {
  numbers: number[]
  blob: BlobName
  /** The client's request that released it first. */
  requestId: string | undefined
  /** Called when the reference is deleted, or stays after all. */
  ended: ((gone: boolean) => void) | undefined
}

/** An effect, and the client's request that made it, if that is known. */
interface NumberedEffect {
  number: number
  requestId: string | undefined
}

type BlobName = Pick<Blob, 'id' | 'incarnation'>

/** References being checked. */
export interface ReferenceCheck {
  /**
   * Deletes the references of those unclaimed blobs that the account still does not use; resolves
   * with the number of deletions. The look is over.
   * @param keys of existing ones
   */
  remove(keys: readonly string[]): Promise<number>
  /** The look is over: references may be deleted again. */
  end(): void
}

export class PendingEffects {
  readonly #account: string
  readonly #services: Services
  readonly #times: WriteTimes
  readonly #finished: (numbers: readonly number[]) => void
  /** By reference key; in the order they were released. */
  readonly #releases = new Map<string, Release>()
  #releasing = false
  /** Unclaimed blobs of the running looks, by reference key; without those used since. */
  readonly #looks = new Set<{ unknownBlobs: Map<string, BlobName>; over: Promise<void> }>()
  #mails = 0
  /** Mails abandoned for this activation. */
  #left = 0
  #stopped = false
  readonly #pauses: Pauses

  /** @param options.finished called with the numbers of effects that are done. */
  constructor(
    account: string,
    services: Services,
    options: { times: WriteTimes; finished: (numbers: readonly number[]) => void },
  ) {
    this.#account = account
    this.#services = services
    this.#times = options.times
    this.#finished = options.finished
    this.#pauses = new Pauses(services.timers)
  }

  /** In memory: a deleted folder may leave hundreds of thousands of pending releases. */
  get bytes(): number {
    return this.#releases.size * releaseBytes
  }

  /** Running effects. */
  get busy(): boolean {
    return this.#releases.size > 0 || this.#releasing || this.#mails > 0
  }

  /** Effects that stay undone until the next activation. */
  get left(): number {
    return this.#left
  }

  /**
   * Takes over effects of durable changes, without those that younger changes, durable or not, have
   * withdrawn. Code rows are durable by now and only counted as done.
   * @param requestOf the client's request that made an effect; asked once for each, in their order
   */
  adopt(effects: readonly Effect[], requestOf: (effect: number) => string | undefined): void {
    const done: number[] = []
    for (const effect of effects) {
      const kind = effect.effect
      const cause = { number: effect.number, requestId: requestOf(effect.number) }
      if (kind?.$case === 'signInMail') this.#mail(cause, kind.value)
      else if (kind?.$case !== 'blobReleased' || kind.value.blob === undefined) done.push(effect.number)
      else this.#addRelease(cause, kind.value.blob)
    }
    if (done.length > 0) this.#finished(done)
    if (this.#releases.size > 0 && !this.#releasing) void this.#release()
  }

  #addRelease({ number, requestId }: NumberedEffect, blob: Blob): void {
    const key = referenceKey(blob, this.#account)
    const known = this.#releases.get(key)
    if (known === undefined) this.#releases.set(key, { numbers: [number], blob, requestId, ended: undefined })
    else known.numbers.push(number)
  }

  /** The account uses these blobs again: their references stay. */
  withdraw(keys: Iterable<string>): void {
    const withdrawn: number[] = []
    for (const key of keys) {
      const release = this.#releases.get(key)
      for (const number of release?.numbers ?? []) withdrawn.push(number)
      this.#releases.delete(key)
      release?.ended?.(false)
      for (const { unknownBlobs } of this.#looks) unknownBlobs.delete(key)
    }
    if (withdrawn.length > 0) this.#finished(withdrawn)
  }

  /**
   * Call it in the turn that read the state.
   *
   * @param unknownBlobs the account's state does not have them.
   */
  look(unknownBlobs: readonly BlobName[]): ReferenceCheck {
    const over = Promise.withResolvers<void>()
    const byKey = new Map(unknownBlobs.map((blob) => [referenceKey(blob, this.#account), blob]))
    const look = { unknownBlobs: byKey, over: over.promise }
    this.#looks.add(look)
    const end = () => {
      this.#looks.delete(look)
      over.resolve()
    }
    return {
      end,
      remove: (keys) => {
        const removals = keys.flatMap((key) => {
          const blob = byKey.get(key)
          return blob === undefined ? [] : [this.#removed(key, blob)]
        })
        end()
        if (this.#releases.size > 0 && !this.#releasing) void this.#release()
        return Promise.all(removals).then((gone) => gone.filter(Boolean).length)
      },
    }
  }

  /** False: the reference stays, or the outcome is unknown because the activation is over. */
  #removed(key: string, blob: BlobName): Promise<boolean> {
    if (this.#stopped || this.#releases.has(key)) return Promise.resolve(false)
    const { promise, resolve } = Promise.withResolvers<boolean>()
    this.#releases.set(key, { numbers: [], blob, requestId: undefined, ended: resolve })
    return promise
  }

  /** The activation is over; running work may still end, nothing new begins. */
  stop(): void {
    this.#stopped = true
    for (const { ended } of this.#releases.values()) ended?.(false)
    this.#pauses.endAll()
  }

  async #release(): Promise<void> {
    this.#releasing = true
    const { bounds, log, randomness } = this.#services
    let attempt = 0
    while (this.#releases.size > 0 && !this.#stopped) {
      for (const { over } of this.#looks) await over
      if (this.#looks.size > 0) continue
      const batch = [...this.#releases.entries().take(bounds.lookupRowsMax)]
      if (batch.length === 0 || this.#stopped) break
      const fault = await this.#deleteReferences(batch)
      if (fault === undefined) {
        attempt = 0
        continue
      }
      const fraction = randomness.fraction()
      const ms = backoffMs(attempt++, { firstMs: bounds.retryFirstMs, maxMs: bounds.retryMaxMs, fraction })
      log.warn(
        {
          requestIds: namedRequests(batch.values().map(([, { requestId }]) => requestId)),
          account: this.#account,
          references: batch.length,
          attempt,
          err: fault,
        },
        'references could not be removed yet',
      )
      await this.#pauses.pause(ms)
    }
    this.#releasing = false
  }

  /** @returns why the lookups refused; what was withdrawn meanwhile is not retried. */
  async #deleteReferences(batch: readonly (readonly [string, Release])[]): Promise<Error | undefined> {
    const rows: LookupChange[] = batch.map(([key]) => ({ delete: key }))
    try {
      await this.#services.lookups.write(rows, this.#times.next())
    } catch (error) {
      return error as Error
    }
    for (const [key, release] of batch) this.#released(key, release)
    return undefined
  }

  #released(key: string, release: Release): void {
    if (this.#releases.get(key) !== release) return
    this.#releases.delete(key)
    this.#finished(release.numbers)
    release.ended?.(true)
    this.#services.onBlobReleased({ blob: release.blob, account: this.#account })
  }

  #mail(effect: NumberedEffect, mail: SignInMail): void {
    const { number, requestId } = effect
    this.#countMail(1)
    this.#sendMail(effect, mail).then(
      (sent) => {
        this.#countMail(-1)
        if (sent) this.#finished([number])
        else this.#left++
      },
      (error: unknown) => {
        this.#countMail(-1)
        this.#left++
        this.#services.log.error(
          { requestId, account: this.#account, effect: number, err: error },
          'the sender of mails failed',
        )
      },
    )
  }

  #countMail(change: number): void {
    this.#mails += change
    this.#services.metrics.mailsWaiting(change)
  }

  async #sendMail({ number, requestId }: NumberedEffect, mail: SignInMail): Promise<boolean> {
    const { bounds, log, mailSemaphore, mailer, metrics, randomness } = this.#services
    const id = `${this.#account}-${number}`
    for (let attempt = 0; attempt < bounds.mailAttemptsMax && !this.#stopped; attempt++) {
      try {
        await mailSemaphore.run(() => mailer.send({ id, accountId: this.#account, ...mail }))
        metrics.mailed({ outcome: 'sent' })
        return true
      } catch (error) {
        const hopeless = (error as Partial<Fault>).category === 'invalid'
        metrics.mailed({ outcome: hopeless ? 'refused' : 'failed' })
        log.warn(
          { requestId, account: this.#account, effect: number, attempt, hopeless, err: error },
          'a mail was not accepted',
        )
        if (hopeless) return true
      }
      const backoff = { firstMs: bounds.mailRetryFirstMs, maxMs: bounds.mailRetryMaxMs }
      await this.#pauses.pause(backoffMs(attempt, { ...backoff, fraction: randomness.fraction() }))
    }
    return false
  }
}
