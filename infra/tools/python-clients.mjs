// Prints the folder that holds one virtual environment per Python client; makes them on the first call (a minute, needs PyPI and Python
// 3.12 or later), a no-op afterwards. python-clients/<client>.txt pins each client and all that it stands on; a change of one makes that
// one again. A client has an environment of its own, as pipx would give it: two of them bring a program of the same name.
//
// To try another version, write it to <client>.txt with what `uv pip compile --universal --python-version 3.12` names for it.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const sources = fileURLToPath(new URL('./python-clients/', import.meta.url))
const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'holdfast', 'python-clients')
const least = [3, 12]

const wanted = readdirSync(sources)
  .filter((file) => file.endsWith('.txt'))
  .map((file) => {
    const pins = readFileSync(join(sources, file))
    const digest = createHash('sha256').update(pins).digest('hex').slice(0, 16)
    return { client: file.slice(0, -'.txt'.length), pins: join(sources, file), digest }
  })
const missing = wanted.filter(({ client, digest }) => digestOf(client) !== digest)
if (missing.length > 0 && !process.argv.includes('--alone')) await installAlone()
else if (missing.length > 0) await install()
console.log(cache)

/** Several checkouts share the cache, and an environment cannot be made elsewhere and moved: its programs name their folder. */
async function installAlone() {
  mkdirSync(cache, { recursive: true })
  const status = await run('flock', [
    join(cache, 'lock'),
    process.execPath,
    fileURLToPath(import.meta.url),
    '--alone',
  ])
  if (status !== 0) process.exit(status)
}

async function install() {
  const python = findPython()
  if (python === undefined)
    fail(
      `Python ${least.join('.')} or later is missing. Install it with its venv module (Debian 13: python3 python3-venv; else: pyenv install 3.13) and call again.`,
    )
  console.error(`python-clients: installing ${missing.map(({ client }) => client).join(', ')} (once) …`)
  // Two at a time: pip waits for the registry half of the time.
  const queue = [...missing]
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) await installOne(python, next)
  }
  await Promise.all([worker(), worker()])
}

async function installOne(python, { client, pins, digest }) {
  const folder = join(cache, client)
  rmSync(folder, { recursive: true, force: true })
  if ((await run(python, ['-m', 'venv', folder])) !== 0)
    fail(`python -m venv failed (see above); Debian has it in the package python3-venv.`)
  // Wheels alone: nothing of theirs runs while it is installed.
  const options = ['--disable-pip-version-check', '--quiet', '--no-input', '--no-deps', '--only-binary=:all:']
  if ((await run(join(folder, 'bin/python'), ['-m', 'pip', 'install', ...options, '-r', pins])) !== 0)
    fail(
      `pip could not install ${client} (see above); it needs PyPI, or a mirror that pip is configured for.`,
    )
  // Comes last: an interrupted installation leaves nothing that looks finished.
  writeFileSync(join(folder, 'holdfast-pins'), digest)
}

function digestOf(client) {
  const mark = join(cache, client, 'holdfast-pins')
  return existsSync(mark) && existsSync(join(cache, client, 'bin/python'))
    ? readFileSync(mark, 'utf8')
    : undefined
}

/** On the PATH, or among pyenv's versions that are not switched on. */
function findPython() {
  const versions = join(process.env.PYENV_ROOT ?? join(homedir(), '.pyenv'), 'versions')
  const named = ['python3', 'python3.14', 'python3.13', 'python3.12']
  const kept = existsSync(versions) ? readdirSync(versions).sort().reverse() : []
  return [...named, ...kept.map((version) => join(versions, version, 'bin/python3'))].find((program) => {
    const asked = spawnSync(program, ['-c', 'import sys; print(*sys.version_info[:2])'], { encoding: 'utf8' })
    if (asked.status !== 0) return false
    const [major, minor] = asked.stdout.trim().split(' ').map(Number)
    return major === least[0] && minor >= least[1]
  })
}

function run(program, args) {
  return new Promise((resolve) => {
    // Standard output is for the answer alone.
    const child = spawn(program, args, { stdio: ['ignore', 2, 2] })
    child.on('error', () => fail(`${program} is missing; Debian has flock in the package util-linux.`))
    child.on('close', resolve)
  })
}

function fail(why) {
  console.error(`python-clients: ${why}`)
  process.exit(2)
}
