/**
 * What visitors may read, remembered for moments, so that a file that many fetch does not ask its account every time.
 *
 * The lifetime is the guarantee that a change of access holds after three seconds: it counts from when the question was sent, as the answer may have
 * been true only then. Owners' answers are never kept (their token dies at once), nor are refusals.
 */
import type { Clock } from '@holdfast/kernel'
import type { FileView } from '@holdfast/wire'

/** Below the promised 3 s, as the answer is also used for a moment. */
const lifetimeMs = 2_500
/** About 1 KB each. */
const answersMax = 10_000

export class RecentAnswers {
  readonly #clock: Clock
  readonly #answers = new Map<string, { askedMs: number; view: Promise<FileView> }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The recent answer to this question, or that of `ask`. Questions asked at one time share it, faults and refusals too. */
  get(question: string, ask: () => Promise<FileView>): Promise<FileView> {
    const now = this.#clock.monotonic()
    const known = this.#answers.get(question)
    if (known !== undefined && now - known.askedMs < lifetimeMs) return known.view
    const answer = { askedMs: now, view: ask() }
    this.#answers.delete(question)
    this.#answers.set(question, answer)
    this.#forgetOldest(now)
    answer.view.then(
      (view) => view.isOwner && this.#forget(question, answer),
      () => this.#forget(question, answer),
    )
    return answer.view
  }

  /** Answers are in the order in which they were asked for. */
  #forgetOldest(now: number): void {
    for (const [question, { askedMs }] of this.#answers) {
      if (this.#answers.size <= answersMax && now - askedMs < lifetimeMs) return
      this.#answers.delete(question)
    }
  }

  #forget(question: string, answer: { view: Promise<FileView> }): void {
    if (this.#answers.get(question)?.view === answer.view) this.#answers.delete(question)
  }
}
