/** Environments of programs from PyPI; a program without pins needs no registry. */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { pypiPrograms } from '../infra/tools/pypi-programs.ts'

t.test('an environment is made once, and again when its pins change or it is incomplete', async (t) => {
  const folder = t.testdir({ 'nothing.txt': '# no packages\n' })
  const before = process.env.XDG_CACHE_HOME
  process.env.XDG_CACHE_HOME = join(folder, 'cache')
  t.teardown(() => {
    if (before === undefined) delete process.env.XDG_CACHE_HOME
    else process.env.XDG_CACHE_HOME = before
  })
  const pins = join(folder, 'nothing.txt')
  const cache = await pypiPrograms([pins])
  const mark = join(cache, 'nothing/holdfast-pins')
  t.ok(existsSync(join(cache, 'nothing/bin/python')))
  const made = statSync(mark).ino
  const digest = readFileSync(mark, 'utf8')
  t.equal(await pypiPrograms([pins]), cache)
  t.equal(statSync(mark).ino, made, 'nothing was done')

  writeFileSync(pins, '# still no packages\n')
  await Promise.all([pypiPrograms([pins]), pypiPrograms([pins])])
  t.not(readFileSync(mark, 'utf8'), digest)

  rmSync(mark) // as an interrupted installation leaves it
  writeFileSync(join(cache, 'nothing/left'), 'over')
  await pypiPrograms([pins])
  t.ok(existsSync(mark))
  t.notOk(existsSync(join(cache, 'nothing/left')))
})
