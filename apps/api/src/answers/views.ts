/** Room for answers of thousands of items, which `Call.takeView` waited for. */
import type { AnswerShare } from '@holdfast/http-kit'

/**
 * Holds the room until the answer is written. Each piece that is written is progress of the reader.
 *
 * @param bytes of the items, as far as it is known now
 */
export function* holding(
  held: AnswerShare,
  bytes: number,
  steps: Generator<void, void>,
): Generator<void, void> {
  held.keep(bytes)
  while (steps.next().done !== true) {
    yield
    held.keep(bytes)
  }
  held.close()
}
