/**
 * Does a parser's time grow linearly with its input? Judged by the ratio of the times for two
 * sizes, which is independent of the machine's speed. Each time is the least of several short
 * measurements: other processes can only lengthen them.
 */

const factor = 8
/** Linear time grows 8 times, quadratic time 64 times. */
const ratioMax = 32
const measuredMs = 1
/** The later ones are for a machine with much other work. */
const triesLeast = 4
const triesMax = 90

/**
 * @param make the input of about this size; made before the clock runs.
 * @param size of the smaller input; the larger one is 8 times as large, about the largest that the
 * parser meets.
 */
export function growsLinearly<Input>(
  make: (size: number) => Input,
  parse: (input: Input) => unknown,
  size = 2_000,
): { linear: boolean; growth: number } {
  const [small, large] = [make(size), make(size * factor)]
  let rounds = 1
  while (msOf(parse, small, rounds) < measuredMs) rounds *= 2
  const largeRounds = Math.max(1, Math.round(rounds / factor))
  let smallMs = Number.POSITIVE_INFINITY
  let largeMs = Number.POSITIVE_INFINITY
  for (let turn = 0; turn < triesLeast || (largeMs >= ratioMax * smallMs && turn < triesMax); turn++) {
    smallMs = Math.min(smallMs, msOf(parse, small, rounds) / rounds)
    largeMs = Math.min(largeMs, msOf(parse, large, largeRounds) / largeRounds)
  }
  const growth = largeMs / smallMs
  return { linear: growth < ratioMax, growth }
}

function msOf<Input>(parse: (input: Input) => unknown, input: Input, rounds: number): number {
  const started = performance.now()
  for (let round = 0; round < rounds; round++) {
    try {
      parse(input)
    } catch {
      // A refusal is an answer, too.
    }
  }
  return performance.now() - started
}
