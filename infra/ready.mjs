// Makes node_modules match package-lock.json; takes some milliseconds when it already does. Plain
// JavaScript for Node 20 and later: it runs on the Node that the machine has, before the project's
// own Node 24 is there.
//
//   --dev      also the tools for tests and checks
//   --quiet    prints nothing when nothing is to do, and little otherwise
//   --install  the step of a deployment: looks at every package, not only at times of files
//   --offline  asks no registry: says what is missing
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

// A failing output does not prevent the start.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

const dev = process.argv.includes('--dev')
const quiet = process.argv.includes('--quiet')
const isStep = process.argv.includes('--install')
const isOffline = process.argv.includes('--offline')
const namedMost = 20
const howToInstall = [
  'Install where the folder can be written and the npm registry is reached: npm run install:production',
  'Or copy node_modules and apps/*/node_modules from a folder with this very package-lock.json.',
]
const isCi = !['', '0', 'false'].includes(process.env.CI ?? '')

// npm writes it last, so it exists exactly when an install completed.
const stamp = 'node_modules/.package-lock.json'
const ownNode = 'node_modules/.bin/node'
// tap compiles its list of plugins into one class. Without that class it uses the default list,
// which includes plugins that .taprc leaves out.
const tapClass = 'node_modules/@tapjs/test/test-built/dist/esm/index.js'
// Beside the clone, not in it: an install may make and remove any folder there.
const lock = join(
  tmpdir(),
  `holdfast-ready-${createHash('sha256').update(process.cwd()).digest('hex').slice(0, 16)}`,
)

// The ids of this process and of the npm that it started. That npm continues to change the folder
// after this process is killed.
const holders = join(lock, 'pid')
const passedOn = ['SIGINT', 'SIGTERM', 'SIGHUP']
let interrupted = false

if (isStep || !isReady()) {
  await takeLock()
  try {
    await makeReady()
  } finally {
    rmSync(lock, { recursive: true, force: true })
  }
}

sweepCompileCache()

function isInstalled() {
  if (dev && !existsSync('node_modules/tap')) return false
  const isCurrent = existsSync(stamp) && statSync(stamp).mtimeMs >= statSync('package-lock.json').mtimeMs
  // A copy without times, or a checkout, makes the lock file newer than packages that fit it.
  return (isCurrent && !isStep) || missingPackages().length === 0
}

/** What package-lock.json wants on this machine and node_modules does not have, `name@version`. */
function missingPackages() {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'))
  return Object.entries(packages)
    .filter(([path, wanted]) => path.includes('node_modules/') && isWanted(wanted))
    .filter(([path, wanted]) => !isThere(path, wanted))
    .map(([path, { version }]) => (version === undefined ? path : `${path}@${version}`))
}

/** Bindings for other systems, processors and C libraries are not installed. */
function isWanted({ dev: isTool, devOptional, optional, os, cpu, libc }) {
  if (isTool && !dev) return false
  if ((optional || devOptional) && os === undefined && cpu === undefined) return false
  if (!fits(os, process.platform) || !fits(cpu, process.arch)) return false
  return libc === undefined || fits(libc, cLibrary())
}

function cLibrary() {
  // Else the report asks for the name of each peer.
  process.report.excludeNetwork = true
  return process.report.getReport().header.glibcVersionRuntime === undefined ? 'musl' : 'glibc'
}

/** A list of npm: names, or with `!` those that are excluded. */
function fits(list, own) {
  if (list === undefined) return true
  if (list.includes(`!${own}`)) return false
  return list.includes(own) || list.every((name) => name.startsWith('!'))
}

function isThere(path, { version, link }) {
  try {
    return link === true
      ? existsSync(path)
      : JSON.parse(readFileSync(`${path}/package.json`, 'utf8')).version === version
  } catch {
    return false
  }
}

function isReady() {
  if (!isInstalled() || !existsSync(ownNode)) return false
  return !dev || isTapBuilt()
}

function isTapBuilt() {
  if (!existsSync(tapClass)) return false
  const built = readFileSync(tapClass, 'utf8')
  const leftOut = [...readFileSync('.taprc', 'utf8').matchAll(/"!(@tapjs\/[a-z-]+)"/g)]
  return leftOut.every(([, plugin]) => !built.includes(`"${plugin}"`) && !built.includes(`'${plugin}'`))
}

async function makeReady() {
  if (!isInstalled()) await install()
  else if (isStep) say('every package of package-lock.json is in place.')
  if (!existsSync(ownNode) && Number(process.versions.node.split('.')[0]) < 24) {
    fail(
      `the package "node" brought no Node 24 (${ownNode} is missing): its install script did not run.`,
      'Allow it (npm config ignore-scripts=false) and run: npm rebuild node',
    )
  }
  if (!isReady() && dev) {
    say('preparing the test runner (once) …')
    if ((await run('npm', 'exec', '--', 'tap', 'build')) !== 0) fail('tap could not be built, see above.')
  }
}

/**
 * Two concurrent installs in one clone would damage it permanently: the second one waits for the
 * first.
 */
async function takeLock() {
  for (let reported = false; ; reported = true) {
    try {
      mkdirSync(lock)
      writeFileSync(holders, `${process.pid}`)
      process.once('exit', () => rmSync(lock, { recursive: true, force: true }))
      return
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    if (!holderLives()) rmSync(lock, { recursive: true, force: true })
    else if (!reported) say('another command is installing packages here; waiting for it …')
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** Also true in the moment between the lock and its holders' numbers. */
function holderLives() {
  try {
    return readFileSync(holders, 'utf8').split(' ').map(Number).some(lives)
  } catch (error) {
    return (
      error.code === 'ENOENT' &&
      Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? 0) < 5_000
    )
  }
}

function lives(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

async function install() {
  if (isOffline || !isWritable()) {
    const why = isOffline ? '--offline asks no registry' : 'this folder is read-only'
    fail(...missingLines(), `nothing is installed, because ${why}.`, ...howToInstall)
  }
  // Installed tools stay.
  const tools = dev || existsSync('node_modules/tap')
  say(
    `installing packages${tools ? ' and tools' : ''}, about ${tools ? 'a minute' : 'half a minute'}; later starts skip this …`,
  )
  // In CI a lock file that does not fit the manifests is a fault. On other machines somebody may be
  // editing the manifests.
  const how = isCi ? ['ci'] : ['install', '--no-save']
  const args = [...how, '--loglevel=error', ...(tools ? [] : ['--omit=dev'])]
  const started = Date.now()
  const status = await withHeartbeat(() => run('npm', ...args), started)
  if (interrupted) fail('the installation was interrupted; the next command does it again.')
  if (status !== 0) {
    fail(`npm ${args.join(' ')} failed (exit ${status}), see above.`, ...missingLines(), ...howToInstall)
  }
  // npm does not touch the stamp when it found nothing to change: that counts as current, too.
  const now = new Date()
  if (existsSync(stamp)) utimesSync(stamp, now, now)
  say(`packages are in place after ${Math.round((Date.now() - started) / 1000)} s.`)
}

function missingLines() {
  const missing = missingPackages()
  const more = missing.length > namedMost ? [`  and ${missing.length - namedMost} more`] : []
  return [
    `missing from node_modules: ${missing.length} of the packages`,
    ...missing.slice(0, namedMost).map((name) => `  ${name}`),
    ...more,
  ]
}

/** By trying: the modes of a folder say nothing about a read-only mount, or for root. */
function isWritable() {
  try {
    for (const folder of ['.', 'node_modules']) {
      if (existsSync(folder)) rmdirSync(mkdtempSync(join(folder, '.writable-')))
    }
    return true
  } catch {
    return false
  }
}

/** On a full disk Node leaves the files that it began, at every end of a process. */
function sweepCompileCache() {
  const cache = 'node_modules/.cache/holdfast'
  try {
    for (const name of readdirSync(cache, { recursive: true })) {
      const path = `${cache}/${name}`
      if (/\.\w{6}$/.test(name) && Date.now() - statSync(path).mtimeMs > 60_000) rmSync(path)
    }
  } catch {
    // There is none, or it is another user's.
  }
}

/**
 * On a terminal npm shows its own progress; elsewhere a line every ten seconds shows in the log
 * that it continues.
 */
async function withHeartbeat(work, started) {
  const beat = () => say(`still installing, ${Math.round((Date.now() - started) / 1000)} s …`)
  const timer = process.stderr.isTTY ? undefined : setInterval(beat, 10_000)
  try {
    return await work()
  } finally {
    clearInterval(timer)
  }
}

/** What npm prints goes to stderr: stdout belongs to the script that follows. */
function run(command, ...args) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ['ignore', 2, 2], shell: process.platform === 'win32' })
    if (child.pid !== undefined) writeFileSync(holders, `${process.pid} ${child.pid}`)
    child.on('error', (error) => {
      console.error(error.message)
      resolve(127)
    })
    // npm first removes what it began, so this process ends after it.
    const pass = (signal) => {
      interrupted = true
      child.kill(signal)
    }
    for (const signal of passedOn) process.on(signal, pass)
    child.on('close', (status) => {
      for (const signal of passedOn) process.off(signal, pass)
      resolve(status ?? 1)
    })
  })
}

function say(text) {
  if (!quiet || !existsSync(stamp)) console.error(`holdfast: ${text}`)
}

function fail(...lines) {
  for (const line of lines) console.error(`holdfast: ${line}`)
  process.exit(1)
}
