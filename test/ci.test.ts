/** What CI reads of `.ci/run`: its last line and its exit code. And how long CI lets it run. */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { scenarios } from '../bench/scenarios.ts'

const root = join(import.meta.dirname, '..')
const well = {
  check: 'true',
  infra: 'true',
  bench: 'true',
  daily: 'echo 20 passed, 0 failed',
  long: 'echo 3 passed, 0 failed',
}

/** What the script looks for. */
const tools = ['unzip', 'openssl', 'nats-server', 'curl', 'ip', 'javac', 'mvn']

function copyOfScript(folder: string): void {
  for (const name of ['bin', '.ci', 'infra']) mkdirSync(join(folder, name), { recursive: true })
  writeFileSync(join(folder, 'infra/ready.mjs'), '')
  copyFileSync(join(root, '.ci/run'), join(folder, '.ci/run'))
}

function command(folder: string, name: string, script: string): void {
  const path = join(folder, 'bin', name)
  writeFileSync(path, `#!/bin/sh\n${script}\n`)
  chmodSync(path, 0o755)
}

/** Runs a copy of the script; `npm` and the tools that it looks for are these shell commands. */
function ciRun(folder: string, { check, infra, bench, daily, long }: typeof well) {
  const npm = `case "$*" in
  'run check') ${check} ;;
  'run infra:check') ${infra} ;;
  'run -s bench -- --quick --check '*) ${bench} ;;
  test) ${daily} ;;
  'run test:long -- --ci') ${long} ;;
  *) exit 9 ;;
esac`
  copyOfScript(folder)
  for (const name of tools) command(folder, name, '')
  command(folder, 'npm', npm)
  const env = { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}` }
  const { status, stdout } = spawnSync(join(folder, '.ci/run'), { env, encoding: 'utf8' })
  return { status, last: stdout.trim().split('\n').at(-1) }
}

t.test('each hot path that CI measures is a scenario', async (t) => {
  const script = readFileSync(join(root, '.ci/run'), 'utf8')
  const chosen = [...script.matchAll(/--only '([^']*)'/g)].map(([, text = '']) => text)
  t.ok(chosen.length > 0)
  for (const text of chosen)
    t.ok(
      scenarios(true).some(({ name }) => name.includes(text)),
      text,
    )
})

const cases: [string, Partial<typeof well>, { status: number; last: string }][] = [
  ['all is well', {}, { status: 0, last: '23 passed, 0 failed' }],
  [
    'a test failed',
    { daily: 'echo 19 passed, 1 failed; exit 1' },
    { status: 1, last: '22 passed, 1 failed' },
  ],
  ['the long run ended early', { long: 'echo ...; exit 3' }, { status: 1, last: '20 passed, 1 failed' }],
  ['the long run printed no counts', { long: 'true' }, { status: 1, last: '20 passed, 1 failed' }],
  ['a rendered file is refused', { infra: 'exit 1' }, { status: 1, last: '23 passed, 1 failed' }],
  ['a hot path is slower', { bench: 'exit 1' }, { status: 1, last: '23 passed, 1 failed' }],
  ['the check failed', { check: 'exit 1' }, { status: 1, last: '0 passed, 1 failed' }],
]

for (const [what, ends, expected] of cases)
  t.test(`${what}: ${expected.last}`, async (t) => {
    t.strictSame(ciRun(t.testdir(), { ...well, ...ends }), expected)
  })

t.test('without root the script names missing tools and installs nothing', async (t) => {
  const folder = t.testdir()
  copyOfScript(folder)
  for (const name of ['bash', 'dirname']) {
    const path = execFileSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim()
    symlinkSync(path, join(folder, 'bin', name))
  }
  command(folder, 'id', 'echo 1000')
  for (const name of ['npm', 'node', 'apt-get']) command(folder, name, `echo ${name} was run`)
  for (const name of ['openssl', 'nats-server', 'ip']) command(folder, name, '')
  const env = { PATH: join(folder, 'bin'), XDG_CACHE_HOME: folder }
  const { status, stdout } = spawnSync(join(folder, '.ci/run'), { env, encoding: 'utf8' })
  t.equal(status, 1)
  t.strictSame(stdout.trim().split('\n'), [
    'This machine lacks these packages, and only root can install them: unzip curl openjdk-17-jdk-headless maven',
    '0 passed, 1 failed',
  ])
})

t.test('CI stops a run that takes more than twice the minutes which the script names', async (t) => {
  const read = (path: string) => readFileSync(join(root, path), 'utf8')
  const [, minutes = ''] = /in (\d+) minutes on two cores/.exec(read('.ci/run')) ?? []
  const [, bound = ''] = /timeout-minutes: (\d+)/.exec(read('.github/workflows/ci.yml')) ?? []
  t.equal(Number(bound), 2 * Number(minutes) + 10)
})

t.test('the figures and the reports of a run that fails are kept', async (t) => {
  const { jobs } = parse(readFileSync(join(root, '.github/workflows/ci.yml'), 'utf8')) as {
    jobs: { ci: { steps: { uses?: string; if?: string; with?: Record<string, unknown> }[] } }
  }
  const step = (name: string) => jobs.ci.steps.filter(({ uses }) => uses?.startsWith(`${name}@`))
  t.strictSame(step('actions/cache'), [], 'it saves after a run that succeeds alone')
  const [[restored], [saved], [reports]] = [
    step('actions/cache/restore'),
    step('actions/cache/save'),
    step('actions/upload-artifact'),
  ]
  for (const kept of [saved, reports]) t.equal(kept?.if, 'always()')
  for (const name of ['path', 'key']) t.equal(saved?.with?.[name], restored?.with?.[name])
})
