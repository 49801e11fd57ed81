/** What CI reads of `.ci/run`: its last line and its exit code. */
import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..')
const well = {
  check: 'true',
  infra: 'true',
  bench: 'true',
  daily: 'echo 20 passed, 0 failed',
  long: 'echo 3 passed, 0 failed',
}

/** Runs a copy of the script; `npm` and the tools that it looks for are these shell commands. */
function ciRun(folder: string, { check, infra, bench, daily, long }: typeof well) {
  const npm = `case "$*" in
  'run check') ${check} ;;
  'run infra:check') ${infra} ;;
  'run -s bench -- --quick --check') ${bench} ;;
  test) ${daily} ;;
  'run test:long -- --ci') ${long} ;;
  *) exit 9 ;;
esac`
  for (const name of ['bin', '.ci', 'infra']) mkdirSync(join(folder, name), { recursive: true })
  writeFileSync(join(folder, 'infra/ready.mjs'), '')
  copyFileSync(join(root, '.ci/run'), join(folder, '.ci/run'))
  for (const name of ['npm', 'unzip', 'openssl', 'nats-server', 'curl', 'ip', 'javac']) {
    const path = join(folder, 'bin', name)
    writeFileSync(path, `#!/bin/sh\n${name === 'npm' ? npm : ''}\n`)
    chmodSync(path, 0o755)
  }
  const env = { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}` }
  const { status, stdout } = spawnSync(join(folder, '.ci/run'), { env, encoding: 'utf8' })
  return { status, last: stdout.trim().split('\n').at(-1) }
}

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
