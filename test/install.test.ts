/** The step that installs, in folders without a registry. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'

const root = join(import.meta.dirname, '..')
const otherSystem = process.platform === 'linux' ? 'darwin' : 'linux'
const wanted = {
  'node_modules/one': { version: '1.0.0' },
  'apps/upload/node_modules/two': { version: '2.0.0' },
  'node_modules/tool': { version: '3.0.0', dev: true },
  'node_modules/foreign': { version: '4.0.0', optional: true, os: [otherSystem] },
}

t.test('packages that fit the lock file are enough, with any times of the files', async (t) => {
  const folder = layOut(t.testdir({}))
  for (const flags of [[], ['--install', '--offline'], ['--quiet']])
    t.equal(ready(folder, flags).status, 0, `with ${flags.join(' ') || 'no flags'}`)
  t.match(ready(folder, ['--install', '--offline']).stderr, 'every package of package-lock.json is in place')
})

t.test('offline, the step names each missing package and installs nothing', async (t) => {
  const folder = layOut(t.testdir({}))
  rmSync(join(folder, 'node_modules/one'), { recursive: true })
  writeJson(folder, 'apps/upload/node_modules/two/package.json', { version: '1.9.0' })
  const { status, stderr } = ready(folder, ['--install', '--offline'])
  t.equal(status, 1)
  t.match(stderr, 'node_modules/one@1.0.0')
  t.match(stderr, 'apps/upload/node_modules/two@2.0.0', 'another version does not count')
  t.notMatch(stderr, /tool|foreign/, 'tools and packages of other systems are not wanted')
})

t.test('a newer stamp does not hide a missing package from the step', async (t) => {
  const folder = layOut(t.testdir({}))
  rmSync(join(folder, 'node_modules/one'), { recursive: true })
  const now = new Date()
  utimesSync(join(folder, 'node_modules/.package-lock.json'), now, now)
  t.equal(ready(folder, ['--install', '--offline']).status, 1)
})

t.test('a start on read-only code says what is missing and installs nothing', async (t) => {
  const folder = layOut(t.testdir({}))
  const packages = join(folder, 'node_modules')
  rmSync(packages, { recursive: true })
  // Modes do not hold back root, nor anyone on some file systems. Nothing makes a folder in /proc.
  if (process.platform === 'linux') symlinkSync('/proc/self', packages)
  else chmodSync(folder, 0o555)
  const { status, stderr } = ready(folder, [])
  chmodSync(folder, 0o755)
  t.equal(status, 1)
  t.match(stderr, 'node_modules/one@1.0.0')
  t.match(stderr, 'read-only')
})

t.test('an interrupted install ends after its npm', async (t) => {
  const folder = layOut(t.testdir({}))
  const calls = withNpm(folder)
  const { child, reported } = await installing(folder, () => calls() !== '')
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  t.strictSame(await ended, [1, null])
  t.equal(calls(), 'begin end ')
  t.match(reported(), 'the installation was interrupted')
})

t.test('the npm of a killed install is waited for', async (t) => {
  const folder = layOut(t.testdir({}))
  const calls = withNpm(folder)
  const killed = await installing(folder, () => calls() !== '')
  killed.child.kill('SIGKILL')
  await once(killed.child, 'exit')
  const next = await installing(folder, (reported) => reported.includes('another command'))
  t.equal(calls(), 'begin ', 'npm runs alone')
  writeFileSync(join(folder, 'may-end'), '')
  await once(next.child, 'exit')
  t.equal(calls(), 'begin end begin end ')
})

/** @returns what the npm in the folder was called for. It runs until there is a file `may-end`. */
function withNpm(folder: string): () => string {
  rmSync(join(folder, 'node_modules/one'), { recursive: true })
  const calls = join(folder, 'calls')
  const npm = `#!${process.execPath}
    const { appendFileSync, existsSync } = require('node:fs')
    const end = (code) => { appendFileSync('calls', 'end '); process.exit(code) }
    process.on('SIGTERM', () => setTimeout(end, 100, 1))
    setInterval(() => existsSync('may-end') && end(0), 5)
    appendFileSync('calls', 'begin ')`
  writeFileSync(join(folder, 'npm'), npm, { mode: 0o755 })
  return () => (existsSync(calls) ? readFileSync(calls, 'utf8') : '')
}

/** The step, as far as `arrived` says. */
async function installing(folder: string, arrived: (reported: string) => boolean) {
  const child: ChildProcess = spawn(process.execPath, ['infra/ready.mjs', '--install'], {
    cwd: folder,
    env: { PATH: folder },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let text = ''
  child.stderr?.setEncoding('utf8').on('data', (more: string) => {
    text += more
  })
  while (!arrived(text)) await setTimeout(5)
  return { child, reported: () => text }
}

t.test('the script of the step is this step', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  t.equal(scripts['install:production'], 'node infra/ready.mjs --install')
})

/** Installed, but with a stamp that is older than the lock file. */
function layOut(folder: string): string {
  for (const path of ['node_modules/one', 'apps/upload/node_modules/two'] as const)
    writeJson(folder, `${path}/package.json`, { version: wanted[path].version })
  writeJson(folder, 'package.json', { name: 'laid-out', private: true })
  writeJson(folder, 'package-lock.json', { lockfileVersion: 3, packages: { '': {}, ...wanted } })
  writeJson(folder, 'node_modules/.package-lock.json', {})
  utimesSync(join(folder, 'node_modules/.package-lock.json'), 1, 1)
  mkdirSync(join(folder, 'node_modules/.bin'))
  symlinkSync(process.execPath, join(folder, 'node_modules/.bin/node'))
  cpSync(join(root, 'infra/ready.mjs'), join(folder, 'infra/ready.mjs'))
  return folder
}

function writeJson(folder: string, path: string, value: object): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), JSON.stringify(value))
}

function ready(folder: string, flags: readonly string[]) {
  return spawnSync(process.execPath, ['infra/ready.mjs', ...flags], {
    cwd: folder,
    encoding: 'utf8',
    // There is no npm: an install that begins anyway fails.
    env: { PATH: folder },
  })
}
