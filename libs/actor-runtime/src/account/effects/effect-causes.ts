/**
 * The client's requests whose changes made effects: lines of the log about an effect name its
 * request. Only memory has them. Effects that a later activation carries out have none.
 */

/** Beyond these the oldest ones are forgotten: their effects are carried out unnamed. */
const causesMax = 1024

/** Requests that one line of the log names. */
const requestsNamedMax = 8

/** Effects of one change, by their numbers. */
interface Cause {
  after: number
  through: number
  requestId: string
}

export class EffectCauses {
  /** In the order of the numbers. */
  readonly #causes: Cause[] = []

  /** @param effects made by a change: numbers above `after`, up to `through` */
  add(requestId: string | undefined, { after, through }: { after: number; through: number }): void {
    if (requestId === undefined || through <= after) return
    if (this.#causes.length >= causesMax) this.#causes.shift()
    this.#causes.push({ after, through, requestId })
  }

  /** Call it with growing numbers: earlier effects are forgotten. */
  take(effect: number): string | undefined {
    while ((this.#causes[0]?.through ?? effect) < effect) this.#causes.shift()
    const [first] = this.#causes
    return first !== undefined && first.after < effect ? first.requestId : undefined
  }
}

/** Some of them, each once. */
export function namedRequests(ids: Iterable<string | undefined>): string[] {
  const named = new Set<string>()
  for (const id of ids) {
    if (named.size >= requestsNamedMax) break
    if (id !== undefined) named.add(id)
  }
  return [...named]
}
