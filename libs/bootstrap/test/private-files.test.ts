import { chmodSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { makePrivate } from '../src/index.ts'

t.test('existing and new files are readable only by their owner', async (t) => {
  const before = process.umask(0o022)
  t.teardown(() => process.umask(before))
  const path = t.testdir({ data: { inner: { secret: 'x' } }, outside: 'x' })
  const data = join(path, 'data')
  for (const directory of [data, join(data, 'inner')]) chmodSync(directory, 0o755)
  for (const file of [join(data, 'inner/secret'), join(path, 'outside')]) chmodSync(file, 0o644)
  symlinkSync(join(path, 'outside'), join(data, 'link'))
  t.same(await makePrivate(data), [])
  writeFileSync(join(data, 'new'), '')
  mkdirSync(join(data, 'more'))
  const mode = (name: string) => (statSync(join(data, name)).mode & 0o777).toString(8)
  t.same(['.', 'inner', 'inner/secret', 'new', 'more'].map(mode), ['700', '700', '600', '600', '700'])
  t.equal(mode('../outside'), '644', 'a link is not followed')
  t.same(await makePrivate(join(path, 'nowhere')), [])
})
