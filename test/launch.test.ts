/** The common flags of every process, and that the program replaces the launcher. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { freePorts } from '../infra/servers/ports.ts'

const root = join(import.meta.dirname, '..')
const launcher = 'infra/launch.sh'
const scripts = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).scripts as Record<string, string>

t.test('the program takes the place of the launcher, with its flags and variables', async (t) => {
  const reported = `({ pid: process.pid, args: process.execArgv, words: process.argv.slice(1), env: process.env })`
  const words = ['--max-old-space-size=192', '-p', `JSON.stringify(${reported})`, 'a word', '--its-own']
  const child = spawn(join(root, launcher), words, { cwd: t.testdir(), stdio: ['ignore', 'pipe', 'inherit'] })
  const { pid, args, words: own, env } = JSON.parse(await text(child.stdout))
  t.equal(pid, child.pid)
  t.strictSame(args.slice(0, 2), ['--max-semi-space-size=16', '--max-old-space-size=192'])
  t.strictSame(own, ['a word', '--its-own'])
  t.equal(env.NODE_COMPILE_CACHE, join(root, 'node_modules/.cache/holdfast'))
  t.equal(
    env.GLIBC_TUNABLES,
    'glibc.malloc.tcache_count=127:glibc.malloc.mxfast=0:glibc.malloc.mmap_threshold=4194304:glibc.malloc.trim_threshold=16777216',
  )
})

t.test('compiled modules go where systemd names a directory for them', async (t) => {
  const env = { PATH: process.env.PATH, CACHE_DIRECTORY: '/var/cache/holdfast' }
  const reported = execFileSync(join(root, launcher), ['-p', 'process.env.NODE_COMPILE_CACHE'], { env })
  t.equal(reported.toString().trim(), '/var/cache/holdfast')
})

t.test('the service of the start script ends cleanly at SIGTERM', async (t) => {
  const ports = await freePorts(4)
  const names = ['API', 'UPLOAD', 'DOWNLOAD', 'ADMIN']
  const settings = Object.fromEntries(names.map((name, at) => [`HOLDFAST_${name}_PORT`, `${ports[at]}`]))
  const env = { PATH: process.env.PATH, HOLDFAST_DATA_DIR: t.testdir(), ...settings }
  const service = spawn('sh', ['-c', scripts.start as string], { cwd: root, env, stdio: 'ignore' })
  t.teardown(() => service.kill('SIGKILL'))
  const ended = once(service, 'exit')
  const isReady = async () =>
    (await fetch(`http://127.0.0.1:${ports[3]}/readyz`).catch(() => undefined))?.ok === true
  while (service.exitCode === null && !(await isReady())) await new Promise((later) => setTimeout(later, 20))
  service.kill('SIGTERM')
  t.strictSame(await ended, [0, null])
})

t.test('only the launcher has flags, allocator settings and the compile cache', async (t) => {
  for (const [name, script] of Object.entries(scripts).filter(([, each]) => /\.ts\b/.test(each)))
    t.match(script, /(^exec|&&) infra\/launch\.sh \S+\.ts( --check)?$/, name)
  const written = execFileSync(
    'git',
    [
      'grep',
      '-lE',
      '(max-semi-space-size=|GLIBC_TUNABLES=|NODE_COMPILE_CACHE[=:])',
      '--',
      ':!test/launch.test.ts',
    ],
    { cwd: root, encoding: 'utf8' },
  )
  t.strictSame(written.trim().split('\n'), [launcher])
})
