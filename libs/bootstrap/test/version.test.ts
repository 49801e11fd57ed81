import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { commitOf } from '../src/version.ts'

const identity = ['-c', 'user.name=a', '-c', 'user.email=a@b']

t.test('the commit is that of a clone, of a work tree, of an archive and of an image', async (t) => {
  const clone = t.testdir({ infra: { 'commit.txt': '$Format:%H$\n' }, '.gitattributes': '' })
  writeFileSync(join(clone, '.gitattributes'), 'infra/commit.txt export-subst\n')
  const git = (...words: string[]) =>
    execFileSync('git', [...identity, ...words], { cwd: clone, encoding: 'utf8' }).trim()
  git('init', '--quiet')
  git('add', '.')
  git('commit', '--quiet', '--message', 'Begin')
  const commit = git('rev-parse', 'HEAD')
  t.equal(commitOf(clone), commit, 'of a branch')
  git('pack-refs', '--all')
  t.equal(commitOf(clone), commit, 'of a packed branch')
  git('checkout', '--quiet', '--detach')
  t.equal(commitOf(clone), commit, 'of no branch')
  const tree = join(clone, 'tree')
  git('worktree', 'add', '--quiet', '-b', 'other', tree)
  t.equal(commitOf(tree), commit, 'of a work tree')

  const archive = join(clone, 'archive')
  mkdirSync(archive)
  execFileSync('tar', ['x', '-C', archive], {
    input: execFileSync('git', ['archive', 'HEAD'], { cwd: clone }),
  })
  t.equal(commitOf(archive), commit, 'of an archive')
  t.equal(commitOf(join(clone, 'nowhere')), 'unknown')
})
