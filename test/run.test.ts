/** What `npm test` says at its end: read there first, so it has to be right. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { TapReading } from './support/tap-reading.ts'

const root = join(import.meta.dirname, '..')

t.test('failures are told once more at the end, by file, test and assertion', async (t) => {
  const folder = t.testdir({
    'good.test.mjs': `import t from '${import.meta.resolve('tap')}'\nt.test('a', async (t) => { t.ok(true, 'b') })`,
    'bad.test.mjs': `import t from '${import.meta.resolve('tap')}'
      t.test('outer', async (t) => {
        t.ok(true, 'fine')
        t.test('inner', async (t) => { t.equal(1, 2, 'one is two') })
      })
      t['skip']('not here')
      t.equal(3, 4)`,
    'breaks.test.mjs': `process.exit(3)`,
  })
  const files = ['good', 'bad', 'breaks'].map((name) => join(folder, `${name}.test.mjs`))
  const { TAP_CHILD_ID: _, TAP: __, ...env } = process.env
  const run = spawnSync(process.execPath, ['test/run.ts', ...files], {
    cwd: root,
    encoding: 'utf8',
    env: { ...env, PATH: `${join(root, 'node_modules/.bin')}:${env.PATH}` },
  })
  t.equal(run.status, 1)
  const end = run.stdout.slice(run.stdout.lastIndexOf('# time='))
  t.match(end, /FAILED: \S*bad\.test\.mjs > outer > inner > one is two/)
  t.match(end, /FAILED: \S*breaks\.test\.mjs/)
  t.notMatch(end, /good\.test/)
  t.match(end.trim().split('\n').at(-1), /^\d+ passed, 3 failed, 1 skipped$/)
})

t.test('a failure of which nothing more is said hides nothing behind it', async (t) => {
  const reading = new TapReading()
  reading.take('not ok 1 - a\nnot ok 2 - b\n  ---\n  why: because\n  ...\n# { total: 5, pass')
  reading.take(': 3, fail: 2, skip: 0 }\n')
  reading.end()
  t.strictSame(
    reading.failures.map(({ path }) => path),
    [['a'], ['b']],
  )
  t.strictSame(reading.failures[1]?.details, ['why: because'])
  t.match(reading, { passed: 3, failed: 2, skipped: 0 })
})
