/**
 * `npm test [-- files and options of tap]`. What failed is told once more at the end, where a long
 * log is looked at first.
 *
 * Many of these tests start services, kill them and cut their networks on a machine that others
 * use, too. So when one or two files of a whole run failed, they run once more, alone; what passes
 * then is told as `unsteady` with what it said the first time, and does not fail the run.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Failure, TapReading } from './support/tap-reading.ts'

/** More failed files than these are no matter of chance. */
const retriedMax = 2

/** Each file is a process of its own, which would read all modules as TypeScript anew. */
const compileCache = join(import.meta.dirname, '../node_modules/.cache/holdfast')

const own = process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'holdfast-tests-'))
try {
  process.exitCode = await runAll()
} finally {
  rmSync(folder, { recursive: true, force: true })
}

async function runAll(): Promise<number> {
  const failedFiles = join(folder, 'failed')
  const first = await runTap([...own, `--save=${failedFiles}`])
  let { failed, exitCode } = first
  let unsteady: Failure[] = []
  const files = exitCode === 0 ? [] : linesOf(failedFiles)
  if (own.length === 0 && files.length > 0 && files.length <= retriedMax) {
    console.log(`\n# once more, alone: ${files.join(', ')}\n`)
    const second = await runTap([...files, '--jobs=1'])
    ;({ failed, exitCode } = second)
    if (exitCode === 0) unsteady = first.failures
    else first.failures.push(...second.failures)
  }
  const failures = exitCode === 0 ? [] : first.failures
  tell('FAILED', failures)
  tell('unsteady, passed alone', unsteady)
  const total = first.passed + first.failed
  console.log(
    `\n${total - failed} passed, ${failed} failed${first.skipped > 0 ? `, ${first.skipped} skipped` : ''}`,
  )
  return exitCode
}

async function runTap(args: readonly string[]): Promise<TapReading & { exitCode: number }> {
  const reading = new TapReading()
  const tap = spawn('tap', ['run', '--reporter=tap', ...args], {
    stdio: ['inherit', 'pipe', 'inherit'],
    env: { NODE_COMPILE_CACHE: compileCache, ...process.env },
  })
  tap.stdout.setEncoding('utf8')
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => tap.kill(signal))
  const ended = new Promise<number>((resolve, reject) => {
    tap.on('error', reject)
    tap.on('close', (code) => resolve(code ?? 1))
  })
  for await (const text of tap.stdout as AsyncIterable<string>) {
    reading.take(text)
    process.stdout.write(text)
  }
  reading.end()
  const exitCode = await ended
  return Object.assign(reading, { exitCode, failed: Math.max(reading.failed, exitCode === 0 ? 0 : 1) })
}

function linesOf(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n').filter(Boolean)
  } catch {
    return []
  }
}

function tell(word: string, failures: readonly Failure[]): void {
  for (const { path, details } of failures) {
    console.log(`\n${word}: ${path.join(' > ')}`)
    for (const line of details) console.log(`  ${line}`)
  }
}
