/**
 * What people meet who start a program of ours by hand with options it does not know, or who ask
 * for them.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..')
const programs = [
  'infra/print-config.ts',
  'bench/run.ts',
  'infra/cluster/main.ts',
  'test/acceptance/run.ts',
  'test/long/run.ts',
  'test/sim/run.ts',
]

function start(program: string, ...words: string[]) {
  return spawnSync(process.execPath, [program, ...words], { cwd: root, encoding: 'utf8' })
}

for (const program of programs) {
  t.test(program, async (t) => {
    const help = start(program, '--help')
    t.match(help, { status: 0, stderr: '' })
    t.match(help.stdout, /npm run/)
    const wrong = start(program, '--never-heard-of')
    t.match(wrong, { status: 2, stdout: '' })
    t.match(wrong.stderr, /never-heard-of/)
    t.ok(wrong.stderr.includes(help.stdout.trim()), 'tells how it is used')
    t.notMatch(wrong.stderr, / at .*\.ts:\d/, 'without a stack')
  })
}
