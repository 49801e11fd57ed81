/**
 * Access answers, cached for seconds, so that a file with many readers does not ask its account
 * every time.
 *
 * Visitor answers live 2.5 s from when the question was sent, because the answer may have been true
 * only then. So a change of access takes effect within three seconds. An expiry is known in
 * advance: no answer is used from that second on, by this host's clock. An owner's answer is valid
 * only while the account is unchanged (its token can end at once), so it is cached only in the
 * account's own process. Refusals are never cached.
 */
import { isOver } from '@holdfast/access'
import type { Clock } from '@holdfast/kernel'
import type { FileView } from '@holdfast/wire'

/** Below the promised 3 s, because using the answer takes a moment, too. */
const lifetimeMs = 2_500
/** About 1 KB each. */
const answersMax = 10_000

interface Answer {
  askedMs: number
  /** The account's version when the question was sent for its owner. */
  version: object | undefined
  view: Promise<FileView>
  /** The view, as soon as it has arrived. */
  arrived: FileView | undefined
}

export class RecentAnswers {
  readonly #clock: Clock
  readonly #answers = new Map<string, Answer>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * The recent answer to this question, or that of `ask`. Concurrent questions share it, including
   * faults and refusals.
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
      (view) => {
        if (view.isOwner) this.#forget(question, answer)
        else answer.arrived = view
      },
      () => this.#forget(question, answer),
    )
    return answer.view
  }

  /** @param version of the account now (`AccountVersions`); undefined: it is asked. */
  ofOwner(question: string, version: object | undefined, ask: () => Promise<FileView>): Promise<FileView> {
    if (version === undefined) return ask()
    const known = this.#known(question)
    if (known?.version === version) return known.view
    const answer = this.#remember(question, version, ask)
    answer.view.then(
      (view) => {
        answer.arrived = view
      },
      () => this.#forget(question, answer),
    )
    return answer.view
  }

  /**
   * The recent answer if it has arrived, for callers that would otherwise await it.
   * @param version of the account now, for a question of its owner; undefined: a visitor's question
   */
  arrived(question: string, version: object | undefined): FileView | undefined {
    const known = this.#known(question)
    const view = known?.arrived
    if (view === undefined || known?.version !== version) return undefined
    return version === undefined && isOver(view.ends, this.#clock.now() / 1000) ? undefined : view
  }

  #known(question: string): Answer | undefined {
    const known = this.#answers.get(question)
    return known !== undefined && this.#clock.monotonic() - known.askedMs < lifetimeMs ? known : undefined
  }

  #remember(question: string, version: object | undefined, ask: () => Promise<FileView>): Answer {
    const askedMs = this.#clock.monotonic()
    const answer: Answer = { askedMs, version, view: ask(), arrived: undefined }
    this.#answers.delete(question)
    this.#answers.set(question, answer)
    this.#forgetOldest(askedMs)
    return answer
  }

  /** Answers are in the order of their questions. */
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
