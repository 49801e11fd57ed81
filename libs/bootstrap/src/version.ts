/** What runs here, for status, metrics and logs. */
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const commitId = /^[0-9a-f]{40}$/

/** The version in the repository's package.json, which `npm run release` raises. */
export const version: string = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version

/** The commit of the sources, 40 hexadecimal digits; `unknown` if it cannot be found. */
export const commit: string = commitOf(root)

/**
 * An archive made by git, such as a release, and an image have the commit in `infra/commit.txt`. A
 * clone has it in its own files; the program git need not be there.
 */
export function commitOf(folder: string): string {
  const written = textIn(join(folder, 'infra/commit.txt'))
  if (commitId.test(written)) return written
  const git = gitDirectory(folder)
  const head = textIn(join(git, 'HEAD'))
  const found = head.startsWith('ref: ') ? commitOfRef(git, head.slice(5)) : head
  return commitId.test(found) ? found : 'unknown'
}

/** In a separate work tree of a clone, `.git` is a file that names the directory. */
function gitDirectory(folder: string): string {
  const path = join(folder, '.git')
  const named = textIn(path)
  return named.startsWith('gitdir: ') ? resolve(folder, named.slice(8)) : path
}

function commitOfRef(git: string, ref: string): string {
  const common = resolve(git, textIn(join(git, 'commondir')) || '.')
  const loose = textIn(join(common, ref))
  if (loose !== '') return loose
  const packed = textIn(join(common, 'packed-refs')).split('\n')
  return packed.find((line) => line.endsWith(` ${ref}`))?.slice(0, 40) ?? ''
}

function textIn(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return ''
  }
}
