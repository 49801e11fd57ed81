// Prints the path of a schemathesis of the pinned version; installs it into a virtual environment of its own on the first call
// (a minute, needs Python 3.10 or later with venv, and pip's index), a no-op afterwards.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const version = '4.32.5'

const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'holdfast')
const place = join(cache, `schemathesis-${version}`)
const finished = join(place, 'finished')
if (!existsSync(finished)) install()
console.log(join(place, 'bin', 'schemathesis'))

function install() {
  console.error(`schemathesis: installing ${version} (once) …`)
  mkdirSync(cache, { recursive: true })
  // Its programs name their place, so it is made there; the mark comes last, so that an interrupted one does not look finished.
  rmSync(place, { recursive: true, force: true })
  run('python3', ['-m', 'venv', place])
  run(join(place, 'bin', 'pip'), ['install', '--quiet', '--no-cache-dir', `schemathesis==${version}`])
  mkdirSync(`${finished}.new`)
  renameSync(`${finished}.new`, finished)
}

function run(program, args) {
  const { status, error } = spawnSync(program, args, { stdio: ['ignore', 'inherit', 'inherit'] })
  if (status === 0) return
  console.error(
    error?.code === 'ENOENT'
      ? 'schemathesis: Python is missing. Install Python 3.10 or later (Debian: python3-venv) and call again.'
      : `schemathesis: ${program} failed (see above); it needs Python 3.10 or later with venv, and pip's index.`,
  )
  process.exit(error?.code === 'ENOENT' ? 2 : 1)
}
