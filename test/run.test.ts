/** The end of `npm test`'s output: it is read first, so it must be correct. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, writeFileSync } from 'node:fs'
import module from 'node:module'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..')
const { TAP_CHILD_ID: _, TAP: __, ...env } = process.env

/**
 * With a folder of its own for what tap keeps: each run empties that folder when it begins, and
 * another run writes into it.
 */
function npmTest(folder: string, files: string[]) {
  writeFileSync(join(folder, 'package.json'), '{}')
  copyFileSync(join(root, '.taprc'), join(folder, '.taprc'))
  const ended = spawnSync(process.execPath, [join(root, 'test/run.ts'), ...files], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...env, PATH: `${join(root, 'node_modules/.bin')}:${env.PATH}` },
  })
  // Printed when this file fails: a run that ended early says why only there.
  for (const line of ended.stderr.trim().split('\n')) t.comment(line)
  return ended
}

t.test('failures are reported with the expected value, then the slowest files and the counts', async (t) => {
  const tap = `import t from '${import.meta.resolve('tap')}'`
  const folder = t.testdir({
    'good.test.mjs': `${tap}\nt.test('a', async (t) => { t.ok(true, 'b'); t.comment('a comment') })`,
    'bad.test.mjs': `${tap}
      t.test('outer', async (t) => {
        t.ok(true, 'fine')
        t.comment('seed 17')
        t.test('inner', async (t) => { t.equal(1, 2, 'one is two') })
      })
      t['skip']('not here')
      t.equal(3, 4)`,
    'breaks.test.mjs': `process.exit(3)`,
  })
  const { status, stdout } = npmTest(
    folder,
    ['good', 'bad', 'breaks'].map((name) => join(folder, `${name}.test.mjs`)),
  )
  t.equal(status, 1)
  t.match(stdout, /outer > inner > one is two[\s\S]*-2\n\s*\+1/)
  t.match(stdout, /FAILED: \S*bad\.test\.mjs\n {2}# seed 17\n/)
  t.match(stdout, /FAILED: \S*bad[\s\S]* {2}not ok 1 - one is two\n[\s\S]*-2\n\s*\+1/, 'once more at the end')
  t.match(stdout, /FAILED: \S*breaks\.test\.mjs\n/)
  t.notMatch(stdout, /FAILED: \S*good|a comment/)
  t.match(stdout, /slowest files, in seconds:\n(?: +\d+\.\d {2}\S+\.test\.mjs\n){3}/)
  t.match(stdout, '1 skipped, each with its reason above')
  t.match(stdout.trim().split('\n').at(-1), /^\d+ passed, 3 failed$/)
})

t.test('a passing run ends with its counts and 0', async (t) => {
  const folder = t.testdir({
    'good.test.mjs': `import t from '${import.meta.resolve('tap')}'\nt.equal(process.env.CI, undefined)\nt.ok(1)`,
  })
  const { status, stdout } = npmTest(folder, [join(folder, 'good.test.mjs')])
  t.equal(status, 0)
  t.notMatch(stdout, 'FAILED')
  t.match(stdout.trim().split('\n').at(-1), /^2 passed, 0 failed$/)
})

t.test('no hook on loading is registered: Node would not use its compile cache', async (t) => {
  // `registerHooks` itself would call it for this module.
  let calls = 0
  const { deregister } = module.registerHooks({
    load(url, context, next) {
      calls++
      return next(url, context)
    },
  })
  await import('./support/tap-run.ts')
  deregister()
  t.equal(calls, 0)
})

t.test('a folder means its tests, and one without any is a fault', async (t) => {
  const ok = `import t from '${import.meta.resolve('tap')}'\nt.ok(1)`
  const folder = t.testdir({ inner: { 'one.test.ts': ok }, 'two.test.ts': ok, none: {} })
  const { stdout } = npmTest(folder, [folder])
  t.match(stdout.trim().split('\n').at(-1), /^2 passed, 0 failed$/)
  const { status, stderr } = npmTest(folder, [join(folder, 'two.test.ts'), join(folder, 'none')])
  t.equal(status, 2)
  t.match(stderr, /none has no tests/)
})
