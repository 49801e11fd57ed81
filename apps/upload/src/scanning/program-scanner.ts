/**
 * A program of the operator: content on its standard input; 0 as exit code says that it is clean, 1
 * that something was found, which the first line of its output names. So `clamscan` and `clamdscan`
 * answer, too. Every other end is no verdict.
 *
 * It is started for each content, without arguments and without the environment of the service,
 * which holds secrets.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { inWords, ScanFault, type Scanner, type Verdict, wordsMax } from './scanner.ts'

const environment = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LANG: 'C.UTF-8',
}
const cleanCode = 0
const foundCode = 1
const outputBytesMax = 4 * wordsMax

export class ProgramScanner implements Scanner {
  readonly name: string
  readonly #path: string

  constructor(path: string) {
    this.#path = path
    this.name = `program ${path}`
  }

  async scan(content: AsyncIterable<Uint8Array>, { signal }: { signal: AbortSignal }): Promise<Verdict> {
    signal.throwIfAborted()
    // A group of its own, so that what it started ends with it.
    const child = spawn(this.#path, [], { stdio: 'pipe', env: environment, detached: true })
    const stop = () => end(child)
    signal.addEventListener('abort', stop, { once: true })
    try {
      const ended = once(child, 'close') as Promise<[code: number | null, signal: string | null]>
      const [output, words] = [headOf(child.stdout), headOf(child.stderr)]
      const [sent, exit] = await Promise.allSettled([feed(child.stdin, content), ended])
      signal.throwIfAborted()
      if (exit.status === 'rejected')
        throw new ScanFault(`${this.name}: ${(exit.reason as Error).message}`, { cause: exit.reason })
      const [code, by] = exit.value
      if (code === foundCode) return { isClean: false, found: inWords(output()) || 'something' }
      // It saw a part of the content.
      if (sent.status === 'rejected') throw sent.reason
      if (code === cleanCode) return { isClean: true }
      const how = code === null ? `was ended by ${by}` : `ended with ${code}`
      throw new ScanFault(`${this.name} ${how}: ${inWords(words()) || 'it said nothing'}`)
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }
}

/** @throws what the content throws. A program may end before it has read all. */
async function feed(input: Writable, content: AsyncIterable<Uint8Array>): Promise<void> {
  let isOpen = true
  const close = () => {
    isOpen = false
  }
  input.on('error', close).once('close', close)
  try {
    for await (const piece of content) {
      // The piece may be reused afterwards.
      await new Promise<void>((resolve) => input.write(piece, () => resolve()))
      if (!isOpen) return
    }
  } finally {
    input.end()
  }
}

/** The first bytes of an output; what comes after them is read and thrown away. */
function headOf(output: Readable): () => Buffer {
  const pieces: Buffer[] = []
  let bytes = 0
  output.on('data', (piece: Buffer) => {
    if (bytes < outputBytesMax) pieces.push(piece)
    bytes += piece.length
  })
  return () => Buffer.concat(pieces)
}

/** Processes that it started end with it. A process that left its group must not delay the end. */
function end(child: ChildProcess): void {
  for (const output of [child.stdout, child.stderr]) output?.destroy()
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // All of the group have ended.
  }
}
