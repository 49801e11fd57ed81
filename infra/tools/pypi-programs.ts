/**
 * Programs from PyPI for suites and checks, each in its own virtual environment, as with pipx: two
 * of them may contain a program of the same name.
 *
 * A file of pins names a program and all of its dependencies, in exact versions; a change of the
 * file makes its environment again. To try another version, write what `uv pip compile --universal
 * --python-version 3.12` names for it. Environments are kept in the user's cache. The first call
 * takes a minute and needs PyPI and Python 3.12 or later; later calls find them there.
 */
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'

const pythonLeast = [3, 12] as const
/** pip waits for the registry half of the time. */
const installedAtOnce = 2

interface Program {
  name: string
  pins: string
  digest: string
}

/** The missing requirement of the machine, and what to do. */
class MissingProgram extends Error {
  override readonly name = 'MissingProgram'
}

/**
 * @param pins paths of files `<program>.txt`
 * @returns the folder that holds `<program>/bin` of each
 * @throws MissingProgram
 */
export async function pypiPrograms(pins: readonly string[]): Promise<string> {
  const cache = cacheFolder()
  if (missingOf(pins).length === 0) return cache
  mkdirSync(cache, { recursive: true })
  // Several checkouts share the cache, and an environment cannot be moved: its programs contain its
  // path.
  const install = [process.execPath, import.meta.filename, ...pins]
  const ended = await run('flock', [join(cache, 'lock'), ...install])
  if (ended !== 0) throw new MissingProgram('programs from PyPI could not be installed, see above')
  return cache
}

async function installMissing(pins: readonly string[]): Promise<void> {
  const missing = missingOf(pins) // another process may have been first
  if (missing.length === 0) return
  const python = findPython()
  console.error(`installing ${missing.map(({ name }) => name).join(', ')} from PyPI (once) …`)
  const worker = async () => {
    for (let next = missing.shift(); next !== undefined; next = missing.shift())
      await installOne(python, next)
  }
  await Promise.all(Array.from({ length: installedAtOnce }, worker))
}

async function installOne(python: string, { name, pins, digest }: Program): Promise<void> {
  const folder = join(cacheFolder(), name)
  rmSync(folder, { recursive: true, force: true })
  if ((await run(python, ['-m', 'venv', folder])) !== 0)
    throw new MissingProgram('python -m venv failed (see above); Debian has it in the package python3-venv')
  // Only wheels: none of their code runs during the installation.
  const options = ['--disable-pip-version-check', '--quiet', '--no-input', '--no-deps', '--only-binary=:all:']
  if ((await run(join(folder, 'bin/python'), ['-m', 'pip', 'install', ...options, '-r', pins])) !== 0)
    throw new MissingProgram(
      `pip could not install ${name} (see above); it needs PyPI, or a mirror that pip is configured for`,
    )
  // Last: an interrupted installation leaves nothing that looks complete.
  writeFileSync(markOf(name), digest)
}

function missingOf(pins: readonly string[]): Program[] {
  return pins
    .map((file) => {
      const digest = createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 16)
      return { name: basename(file, '.txt'), pins: file, digest }
    })
    .filter(({ name, digest }) => !existsSync(markOf(name)) || readFileSync(markOf(name), 'utf8') !== digest)
}

function markOf(name: string): string {
  return join(cacheFolder(), name, 'holdfast-pins')
}

function cacheFolder(): string {
  return join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'holdfast', 'python-clients')
}

/** On the PATH, or among pyenv's inactive versions. @throws MissingProgram */
function findPython(): string {
  const versions = join(process.env.PYENV_ROOT ?? join(homedir(), '.pyenv'), 'versions')
  const named = ['python3', 'python3.14', 'python3.13', 'python3.12']
  const kept = existsSync(versions) ? readdirSync(versions).sort().reverse() : []
  const all = [...named, ...kept.map((version) => join(versions, version, 'bin/python3'))]
  const found = all.find((program) => {
    const asked = spawnSync(program, ['-c', 'import sys; print(*sys.version_info[:2])'], { encoding: 'utf8' })
    if (asked.status !== 0) return false
    const [major = 0, minor = 0] = asked.stdout.trim().split(' ').map(Number)
    return major === pythonLeast[0] && minor >= pythonLeast[1]
  })
  if (found === undefined)
    throw new MissingProgram(
      `Python ${pythonLeast.join('.')} or later is missing. Install it with its venv module (Debian 13: python3 python3-venv; else: pyenv install 3.13) and call again`,
    )
  return found
}

/** Standard output is left to the suites. */
function run(program: string, args: readonly string[]): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 2, 2] })
    child.on('error', () =>
      reject(new MissingProgram(`${program} is missing; Debian has flock in the package util-linux`)),
    )
    child.on('close', resolve)
  })
}

if (import.meta.main) {
  try {
    await installMissing(process.argv.slice(2))
  } catch (error) {
    if (!(error instanceof MissingProgram)) throw error
    console.error(error.message)
    process.exitCode = 2
  }
}
