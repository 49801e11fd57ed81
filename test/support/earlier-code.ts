/** The release with which upgrades begin: its sources from this clone, and its packages. */
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const repository = fileURLToPath(new URL('../../', import.meta.url))
/**
 * Used as the previous release until there is a tag: the newest commit before backups, takedown,
 * invitations and LevelDB, with today's rows and checkpoints.
 */
const untilTagged = '4fb90957234704249dfcbdab5d676ee042d6220c'

/** The newest tag of a version before what is checked out. */
export function previousRelease(): string {
  const tags = git('tag', '--list', 'v*', '--sort=-version:refname', '--merged', 'HEAD')
  const head = git('rev-parse', 'HEAD')
  const tag = tags.split('\n').find((name) => name !== '' && git('rev-list', '-1', name) !== head)
  return tag ?? untilTagged
}

/** @throws Error when this clone has no such commit */
export function unpack(release: string, folder: string): void {
  try {
    git('cat-file', '-e', `${release}^{commit}`)
  } catch {
    throw new Error(`this clone has no commit ${release}: git fetch --unshallow --tags brings it`)
  }
  const archive = execFileSync('git', ['archive', release], { cwd: repository, maxBuffer: 1024 ** 3 })
  mkdirSync(folder, { recursive: true })
  execFileSync('tar', ['x', '-C', folder], { input: archive })
  execFileSync(process.execPath, ['infra/ready.mjs', '--quiet'], { cwd: folder, stdio: 'pipe' })
}

function git(...words: string[]): string {
  return execFileSync('git', words, { cwd: repository, encoding: 'utf8', stdio: 'pipe' }).trim()
}
