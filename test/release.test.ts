import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..')
const manifest = (version: string) => `${JSON.stringify({ name: 'holdfast', version }, null, 2)}\n`

t.test('a release has its version, its changelog, its tag and its sources', async (t) => {
  const folder = t.testdir({
    'package.json': manifest('0.1.0'),
    'package-lock.json': JSON.stringify(
      { name: 'holdfast', version: '0.1.0', packages: { '': { name: 'holdfast', version: '0.1.0' } } },
      null,
      2,
    ),
    'CHANGELOG.md': '# Changelog\n\n## Unreleased\n\n### Added\n- A thing.\n\n## 0.1.0\n\nThe first.\n',
  })
  const identity = {
    GIT_AUTHOR_NAME: 'a',
    GIT_AUTHOR_EMAIL: 'a@b',
    GIT_COMMITTER_NAME: 'a',
    GIT_COMMITTER_EMAIL: 'a@b',
  }
  const env = { ...process.env, ...identity }
  const git = (...words: string[]) => execFileSync('git', words, { cwd: folder, encoding: 'utf8', env })
  const release = (...words: string[]) =>
    spawnSync(process.execPath, [join(root, 'infra/release.ts'), ...words], {
      cwd: folder,
      encoding: 'utf8',
      env,
    })
  git('init', '--quiet')
  git('add', '.')
  git('commit', '--quiet', '--message', 'Begin')

  t.match(release('--to', '0.1.0'), { status: 2, stderr: /not later/ })
  t.match(release('--to', 'two'), { status: 2, stderr: /no version/ })
  writeFileSync(join(folder, 'package.json'), manifest('0.1.0').trim())
  t.match(release('--to', '0.2.0'), { status: 2, stderr: /not committed/ })
  git('checkout', '--quiet', '.')

  t.match(release('--to', '0.2.0'), { status: 0, stdout: /v0\.2\.0/ })
  for (const file of ['package.json', 'package-lock.json']) {
    t.match(git('show', `v0.2.0:${file}`), '"version": "0.2.0"')
    t.notMatch(git('show', `v0.2.0:${file}`), '0.1.0')
  }
  t.match(
    git('show', 'v0.2.0:CHANGELOG.md'),
    /## Unreleased\n\n## 0\.2\.0 \(20\d\d-\d\d-\d\d\)\n\n### Added\n- A thing\.\n\n## 0\.1\.0\n/,
  )
  t.match(git('tag', '--list', '--format=%(contents)'), 'A thing.')
  const artefact = readFileSync(join(folder, 'dist/holdfast-0.2.0.tar.gz'))
  t.match(
    readFileSync(join(folder, 'dist/holdfast-0.2.0.tar.gz.sha256'), 'utf8'),
    createHash('sha256').update(artefact).digest('hex'),
  )
  t.match(release('--to', '0.3.0'), { status: 2, stderr: /nothing under/ })
})
