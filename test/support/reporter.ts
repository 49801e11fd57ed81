import { Transform, type TransformCallback } from 'node:stream'

/** Passes the runner's TAP through and closes with `N passed, N failed[, N skipped]`. */
export default class ClosingCounts extends Transform {
  #tail = ''
  #counts = { pass: 0, fail: 0, skip: 0, todo: 0 }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const lines = (this.#tail + chunk.toString()).split('\n')
    this.#tail = lines.pop() ?? ''
    for (const line of lines) this.#read(line)
    done(null, chunk)
  }

  override _flush(done: TransformCallback): void {
    this.#read(this.#tail)
    const { pass, fail, skip } = this.#counts
    done(null, `\n${pass} passed, ${fail} failed${skip > 0 ? `, ${skip} skipped` : ''}\n`)
  }

  #read(line: string): void {
    if (!line.startsWith('# { total:')) return
    for (const [, word, count] of line.matchAll(/(pass|fail|skip|todo): (\d+)/g))
      this.#counts[word as 'pass'] = Number(count)
  }
}
