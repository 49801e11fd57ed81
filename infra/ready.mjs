// Makes node_modules match package-lock.json; a no-op of some milliseconds when it does. Plain JavaScript for Node 20
// and later: it runs on whatever Node the machine has, before the project's own Node 24 is there.
//
//   --dev    also the tools for tests and checks
//   --quiet  says nothing when nothing is to do, and little else
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, utimesSync } from 'node:fs'

// What cannot be printed is no reason not to start.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

const dev = process.argv.includes('--dev') || existsSync('node_modules/tap')
const quiet = process.argv.includes('--quiet')

// npm writes it last, so it is there exactly when an install went through.
const stamp = 'node_modules/.package-lock.json'
const ownNode = 'node_modules/.bin/node'
// tap compiles its list of plugins into one class; until then it runs with the default list, TypeScript 6 among them.
const tapClass = 'node_modules/@tapjs/test/test-built/dist/esm/index.js'

const current = existsSync(stamp) && statSync(stamp).mtimeMs >= statSync('package-lock.json').mtimeMs
if (!current || (dev && !existsSync('node_modules/tap'))) await install()
if (!existsSync(ownNode) && Number(process.versions.node.split('.')[0]) < 24) {
  fail(
    `the package "node" brought no Node 24 (${ownNode} is missing): its install script did not run.`,
    'Allow it (npm config ignore-scripts=false) and run: npm rebuild node',
  )
}
if (dev && (!existsSync(tapClass) || readFileSync(tapClass, 'utf8').includes('@tapjs/typescript'))) {
  say('preparing the test runner (once) …')
  if ((await run('npm', 'exec', '--', 'tap', 'build')) !== 0) fail('tap could not be built, see above.')
}

sweepCompileCache()

async function install() {
  say(
    `installing packages${dev ? ' and tools' : ''}, about ${dev ? 'a minute' : 'half a minute'}; later starts skip this …`,
  )
  const args = ['install', '--no-save', '--loglevel=error', ...(dev ? [] : ['--omit=dev'])]
  const started = Date.now()
  const status = await withHeartbeat(() => run('npm', ...args), started)
  if (status !== 0) {
    fail(
      `npm ${args.join(' ')} failed (exit ${status}), see above.`,
      'The first start needs the npm registry; offline, copy a node_modules of this very package-lock.json here.',
    )
  }
  // npm leaves the stamp alone when it found nothing to change: that counts as current, too.
  const now = new Date()
  if (existsSync(stamp)) utimesSync(stamp, now, now)
  say(`packages are in place after ${Math.round((Date.now() - started) / 1000)} s.`)
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

/** On a terminal npm shows its own progress; elsewhere a line every ten seconds tells a log that all is well. */
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
    child.on('error', (error) => {
      console.error(error.message)
      resolve(127)
    })
    child.on('close', (status) => resolve(status ?? 1))
  })
}

function say(text) {
  if (!quiet || !existsSync(stamp)) console.error(`holdfast: ${text}`)
}

function fail(...lines) {
  for (const line of lines) console.error(`holdfast: ${line}`)
  process.exit(1)
}
