/**
 * Reads TAP as it passes: the counts, and which assertions failed, wherever in a tree of tests they
 * stand.
 */

export interface Failure {
  /** The test file, the tests in it, the assertion. */
  path: string[]
  /** What TAP says of it, line by line; at most some twenty. */
  details: string[]
}

const detailsMax = 24

export class TapReading {
  readonly failures: Failure[] = []
  passed = 0
  failed = 0
  skipped = 0
  #rest = ''
  readonly #open: string[] = []
  /** Those being read or, where they follow, about to be; and how far in they stand. */
  #details: { lines: string[]; indent: number; begun: boolean } | undefined

  take(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) this.#line(line)
  }

  end(): void {
    this.#line(this.#rest)
    this.#rest = ''
  }

  #line(line: string): void {
    const depth = Math.floor((line.length - line.trimStart().length) / 4)
    const text = line.trimStart()
    const details = this.#details
    if (details !== undefined && !details.begun && text !== '---') this.#details = undefined
    else if (details !== undefined) {
      if (text === '...') this.#details = undefined
      else if (details.begun && details.lines.length < detailsMax)
        details.lines.push(line.slice(details.indent))
      details.begun = true
      return
    }
    const begun = /^# Subtest: (.*)$/.exec(text)
    if (begun !== null) this.#open.splice(depth, Number.POSITIVE_INFINITY, begun[1] as string)
    const failed = /^not ok \d+ - (.*?)( # time=.*)?$/.exec(text)
    if (failed !== null && !/ # (TODO|SKIP)/i.test(text)) this.#failed(depth, failed[1] as string)
    if (depth === 0 && text.startsWith('# { total:')) this.#counts(text)
  }

  /** A test that failed because of what stands in it says nothing new. */
  #failed(depth: number, what: string): void {
    const path = [...this.#open.slice(0, depth), what]
    const last = this.failures.at(-1)?.path
    if (last !== undefined && last.length > path.length && path.every((part, i) => part === last[i])) return
    const details: string[] = []
    this.#details = { lines: details, indent: 4 * depth + 2, begun: false }
    this.failures.push({ path, details })
  }

  #counts(text: string): void {
    const count = (word: string) => Number(new RegExp(`${word}: (\\d+)`).exec(text)?.[1] ?? 0)
    this.passed = count('pass')
    this.failed = count('fail')
    this.skipped = count('skip')
  }
}
