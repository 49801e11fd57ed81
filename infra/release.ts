/**
 * `npm run release -- --to 1.2.3`: makes a release of what is committed.
 *
 *   - The version goes into package.json and package-lock.json.
 *   - "Unreleased" of CHANGELOG.md becomes the version with its date, and a new empty one is above.
 *   - A commit and the tag v1.2.3 hold that; nothing is pushed.
 *   - dist/holdfast-1.2.3.tar.gz has the sources of the tag, and dist/holdfast-1.2.3.tar.gz.sha256
 *     their digest. `npm start` in it runs the service.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { commandLine, headOf } from './command-line.ts'

const { values, refuse } = commandLine('release', headOf(import.meta.filename), { to: { type: 'string' } })
const version = values.to ?? refuse('--to is missing')
const git = (...words: string[]) => execFileSync('git', words, { encoding: 'utf8' }).trim()
const manifests = ['package.json', 'package-lock.json']

const current = (JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }).version
const changelog = readFileSync('CHANGELOG.md', 'utf8')
const heading = 'Unreleased\n'
const unreleased = changelog
  .split(/^## /m)
  .find((section) => section.startsWith(heading))
  ?.slice(heading.length)
  .trim()

if (!/^\d+\.\d+\.\d+$/.test(version)) refuse(`${version} is no version like 1.2.3`)
if (!isLater(version, current)) refuse(`${version} is not later than ${current}`)
if (!unreleased) refuse('CHANGELOG.md has nothing under "Unreleased"')
if (git('status', '--porcelain', '--untracked-files=no') !== '')
  refuse('there are changes that are not committed')
if (git('tag', '--list', `v${version}`) !== '') refuse(`the tag v${version} is there`)

for (const file of manifests) {
  const text = readFileSync(file, 'utf8')
  // The first is the root's; in the lock file its entry among the packages has it once more.
  const own = new RegExp(`("name": "holdfast",\\s+"version": ")${current.replaceAll('.', '\\.')}"`, 'g')
  writeFileSync(file, text.replace(own, `$1${version}"`))
}
const today = new Date().toISOString().slice(0, 10)
writeFileSync(
  'CHANGELOG.md',
  changelog.replace('## Unreleased\n', `## Unreleased\n\n## ${version} (${today})\n`),
)
git('commit', '--quiet', '--message', `Release ${version}`, '--', ...manifests, 'CHANGELOG.md')
git('tag', '--annotate', `v${version}`, '--message', `Release ${version}\n\n${unreleased}`)

mkdirSync('dist', { recursive: true })
const artefact = `holdfast-${version}.tar.gz`
git('archive', `--prefix=holdfast-${version}/`, `--output=dist/${artefact}`, `v${version}`)
const digest = createHash('sha256')
  .update(readFileSync(`dist/${artefact}`))
  .digest('hex')
writeFileSync(`dist/${artefact}.sha256`, `${digest}  ${artefact}\n`)
console.log(`v${version} is tagged; dist/${artefact} has its sources.`)

function isLater(one: string, other: string): boolean {
  const [a, b] = [one, other].map((each) => each.split('.').map(Number)) as [number[], number[]]
  const differing = a.findIndex((part, index) => part !== b[index])
  return differing >= 0 && (a[differing] ?? 0) > (b[differing] ?? 0)
}
