/**
 * What somebody may read, remembered for moments, so that a file that many fetch does not ask its
 * account every time.
 *
 * For visitors the lifetime is the guarantee that a change of access holds after three seconds: it
 * counts from when the question was sent, as the answer may have been true only then. An expiry is
 * no change, it was known: an answer is not used from that second on, by this host's clock. An
 * owner's answer holds no longer than the account is unchanged (his token dies at once), so it is
 * kept only where the account is in this process. Refusals are never kept.
 */
import { isOver } from '@holdfast/access'
import type { Clock } from '@holdfast/kernel'
import type { FileView } from '@holdfast/wire'

/** Below the promised 3 s, as the answer is also used for a moment. */
const lifetimeMs = 2_500
/** About 1 KB each. */
const answersMax = 10_000

interface Answer {
  askedMs: number
  /** Of the account, when it was asked for its owner. */
  moment: object | undefined
  view: Promise<FileView>
}

export class RecentAnswers {
  readonly #clock: Clock
  readonly #answers = new Map<string, Answer>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * The recent answer to this question, or that of `ask`. Questions asked at one time share it,
   * faults and refusals too.
   */
  async ofVisitor(question: string, ask: () => Promise<FileView>): Promise<FileView> {
    const known = this.#known(question)
    if (known !== undefined) {
      const view = await known.view
      if (!isOver(view.ends, this.#clock.now() / 1000)) return view
      this.#forget(question, known)
      return ask()
    }
    const answer = this.#remember(question, undefined, ask)
    answer.view.then(
      (view) => view.isOwner && this.#forget(question, answer),
      () => this.#forget(question, answer),
    )
    return answer.view
  }

  /** @param moment of the account now (`AccountMoments`); undefined: it is asked. */
  ofOwner(question: string, moment: object | undefined, ask: () => Promise<FileView>): Promise<FileView> {
    if (moment === undefined) return ask()
    const known = this.#known(question)
    if (known?.moment === moment) return known.view
    const answer = this.#remember(question, moment, ask)
    answer.view.catch(() => this.#forget(question, answer))
    return answer.view
  }

  #known(question: string): Answer | undefined {
    const known = this.#answers.get(question)
    return known !== undefined && this.#clock.monotonic() - known.askedMs < lifetimeMs ? known : undefined
  }

  #remember(question: string, moment: object | undefined, ask: () => Promise<FileView>): Answer {
    const askedMs = this.#clock.monotonic()
    const answer = { askedMs, moment, view: ask() }
    this.#answers.delete(question)
    this.#answers.set(question, answer)
    this.#forgetOldest(askedMs)
    return answer
  }

  /** Answers are in the order in which they were asked for. */
  #forgetOldest(now: number): void {
    for (const [question, { askedMs }] of this.#answers) {
      if (this.#answers.size <= answersMax && now - askedMs < lifetimeMs) return
      this.#answers.delete(question)
    }
  }

  #forget(question: string, answer: Answer): void {
    if (this.#answers.get(question) === answer) this.#answers.delete(question)
  }
}
