/**
 * Runs test files with tap and its own reporter, and adds what that leaves out: each file and its
 * seconds when it ends; at the end comments of the files that failed (seeds and tables are in
 * them), the slowest files, and the counts.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Form, formVariable, unsteady } from '../forms.ts'

/**
 * The full reporter draws all its lines again at each assertion: 13 s of CPU for 5,610
 * of them, where this one takes 2 s.
 */
const reporter = '--reporter=terse'
/** Interval at which files that have ended are printed, ms. */
const progressEveryMs = 1_000
const slowestListed = 10
/** Comments of a failed file that are shown: the last ones. */
const commentsShown = 40
/** Failures of a failed file that are shown: the first ones. */
const failuresShown = 5
/** Lines of one failed assertion, with what it found. */
const failureLinesShown = 30

/**
 * tap notes the modules of each process, also of programs that tests start, for its coverage and
 * its `--changed`. Without both, this takes a quarter of a second of CPU in each process: it reads
 * all source maps. No module is noted.
 */
const unrecorded = '--test-env=_TAPJS_PROCESSINFO_EXCLUDE_=/./'

/** Before the options of tap, whose imports come later. */
function withoutModuleHooks(): string {
  const file = new URL('./no-module-hooks.mjs', import.meta.url).href
  return `--import=${file} ${process.env.NODE_OPTIONS ?? ''}`.trim()
}

interface TestFile {
  path: string
  ended: boolean
  failed: boolean
  seconds: number
  comments: string[]
  /** Failed assertions, each with what it found. */
  failures: string[]
}

export interface TapRun {
  passed: number
  failed: number
  exitCode: number
}

/** @param args files and options of tap; without files it runs those that `.taprc` includes. */
export async function runTap(args: readonly string[], form: Form): Promise<TapRun> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-tests-'))
  const reported = new Set<string>()
  const reporting = setInterval(() => reportEnded(folder, reported), progressEveryMs)
  try {
    const { exitCode, counts } = await spawnTap([`--output-dir=${folder}`, ...args], form)
    clearInterval(reporting)
    reportEnded(folder, reported)
    const files = testFiles(folder).map((name) => readTestFile(folder, name))
    listSlowest(files)
    for (const file of files) if (file.failed) reportFailed(file)
    const count = (word: string) => Number(new RegExp(`${word}: (\\d+)`).exec(counts)?.[1] ?? 0)
    const [passed, failed, skipped] = [count('pass'), count('fail'), count('skip')]
    if (skipped > 0) console.log(`\n${skipped} skipped, each with its reason above`)
    return { passed, failed: Math.max(failed, exitCode === 0 ? 0 : 1), exitCode }
  } finally {
    clearInterval(reporting)
    rmSync(folder, { recursive: true, force: true })
  }
}

async function spawnTap(args: readonly string[], form: Form): Promise<{ exitCode: number; counts: string }> {
  // Without CI the reporter draws its whole screen again at each assertion. Test files do not get
  // it.
  const env = { ...process.env, CI: '1', [formVariable]: form, NODE_OPTIONS: withoutModuleHooks() }
  // One more than cores: half of a file's time is waits, for disks, servers and timers.
  const jobs = `--jobs=${availableParallelism() + 1}`
  const tap = spawn('tap', ['run', reporter, '--test-env=CI', unrecorded, jobs, ...args], {
    stdio: ['inherit', 'pipe', 'inherit'],
    env,
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => tap.kill(signal))
  const ended = new Promise<number>((resolve, reject) => {
    tap.on('error', reject)
    tap.on('close', (code) => resolve(code ?? 1))
  })
  let end = ''
  for await (const text of tap.stdout.setEncoding('utf8') as AsyncIterable<string>) {
    process.stdout.write(text)
    end = (end + text).slice(-1_000)
  }
  return { exitCode: await ended, counts: /^# \{ total: .*\}$/m.exec(end)?.[0] ?? '' }
}

function testFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => /\.\w+\.tap$/.test(name))
}

/** Prints those that ended since the last call. */
function reportEnded(folder: string, reported: Set<string>): void {
  for (const name of testFiles(folder).filter((name) => !reported.has(name))) {
    const { path, ended, failed, seconds } = readTestFile(folder, name)
    if (!ended) continue
    reported.add(name)
    console.log(`${failed ? 'FAIL' : 'PASS'} ${seconds.toFixed(1).padStart(7)} s  ${path}`)
  }
}

/** Reads the TAP that the file printed. A file that ended early has no closing time. */
function readTestFile(folder: string, name: string): TestFile {
  const text = readFileSync(join(folder, name), 'utf8')
  const time = /^# time=([\d.]+)(ms|s)\n*$/m.exec(text.slice(-100))
  return {
    path: name.slice(0, -'.tap'.length),
    ended: time !== null,
    failed: time === null || /^ *not ok (?!.* # (TODO|SKIP))/m.test(text),
    seconds: time === null ? 0 : Number(time[1]) / (time[2] === 'ms' ? 1_000 : 1),
    comments: [...text.matchAll(/^ *# (?!Subtest: |time=|\{ )(.*)$/gm)].map(([, comment = '']) => comment),
    failures: failuresIn(text),
  }
}

/** Without those of subtests as a whole: what failed in them stands before. */
function failuresIn(text: string): string[] {
  const failed = /^( *)not ok (?!.* # (?:TODO|SKIP|time=)).*\n(?:\1 {2}---\n(?:(?!\1 {2}\.\.\.\n).*\n)*)?/gm
  return [...text.matchAll(failed)].map(([lines, indent = '']) =>
    lines
      .trimEnd()
      .split('\n')
      .slice(0, failureLinesShown)
      .map((line) => line.slice(indent.length))
      .join('\n'),
  )
}

/** What it found comes last: an extract of a long log begins and ends with what matters. */
function reportFailed({ path, comments, failures }: TestFile): void {
  const cause = unsteady[path]
  console.log(`\nFAILED: ${path}${cause === undefined ? '' : ` (known to be unsteady: ${cause})`}`)
  for (const comment of comments.slice(-commentsShown)) console.log(`  # ${comment}`)
  for (const failure of failures.slice(0, failuresShown)) console.log(failure.replaceAll(/^/gm, '  '))
}

function listSlowest(files: readonly TestFile[]): void {
  const slowest = files.toSorted((one, other) => other.seconds - one.seconds).slice(0, slowestListed)
  console.log('\nThe slowest files, in seconds:')
  for (const { path, seconds } of slowest) console.log(`${seconds.toFixed(1).padStart(8)}  ${path}`)
}
