/**
 * `npm run cluster` before a cluster runs: which process holds the data directory, and what ends a
 * start.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { type Command, sendCommand, serveCommands, socketOf } from '../../infra/cluster/control.ts'
import { holdOf, recordHolder } from '../../infra/cluster/hold.ts'
import { beganOf, recordRunning } from '../../infra/cluster/leftovers.ts'

const inInfra = (name: string) => fileURLToPath(new URL(`../../infra/${name}`, import.meta.url))

/** The command, on free ports. */
function cluster(words: string[], settings: Record<string, string>): ChildProcess & { said(): string } {
  const inherited: Record<string, string> = {}
  for (const name of ['PATH', 'HOME', 'TMPDIR', 'LANG', 'XDG_CACHE_HOME'])
    if (process.env[name] !== undefined) inherited[name] = process.env[name]
  const ports = ['API', 'UPLOAD', 'DOWNLOAD', 'ADMIN'].map((name) => [`HOLDFAST_${name}_PORT`, '0'])
  const child = spawn(inInfra('launch.sh'), [inInfra('cluster/main.ts'), ...words], {
    env: { ...inherited, ...Object.fromEntries(ports), ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
  return Object.assign(child, { said: () => said })
}

async function outcomeOf(child: ReturnType<typeof cluster>): Promise<{ code: number | null; said: string }> {
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, said: child.said() }
}

t.test(
  'a data directory is held by one process, in any spelling, and free when that process is killed',
  async (t) => {
    const dataDir = t.testdir({ real: {}, other: t.fixture('symlink', 'real') })
    const holder = spawn(
      process.execPath,
      [
        '--input-type=module',
        '-e',
        `import { holdOf } from ${JSON.stringify(inInfra('cluster/hold.ts'))}
       globalThis.hold = holdOf(${JSON.stringify(join(dataDir, 'real'))})
       console.log(hold !== undefined)
       setInterval(() => {}, 1000)`,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    t.teardown(() => holder.kill('SIGKILL'))
    const [answer] = (await once(holder.stdout, 'data')) as [Buffer]
    t.equal(answer.toString().trim(), 'true')
    for (const spelling of ['real', 'other']) t.equal(holdOf(join(dataDir, spelling)), undefined)
    holder.kill('SIGKILL')
    await once(holder, 'exit')
    const own = holdOf(join(dataDir, 'other'))
    t.ok(own)
    t.equal(holdOf(join(dataDir, 'real')), undefined, 'against its own process too')
    own?.close()
  },
)

t.test(
  'a second start with another spelling of the directory stops no process; commands accept any spelling',
  async (t) => {
    const root = t.testdir({ real: {}, tmp: {} })
    const [real, other] = [join(root, 'real'), join(root, 'other')]
    symlinkSync(real, other)
    const hold = holdOf(real)
    const running = spawn('sleep', ['600'])
    await once(running, 'spawn')
    recordRunning(real, [['eu-par-nats', running.pid as number]])
    recordHolder(real, socketOf(real))
    const commands: Command[] = []
    const server = await serveCommands(socketOf(real), async (command) => {
      commands.push(command)
      if (command.do === 'restart') throw new Error(`there is no process ${command.name}`)
    })
    t.teardown(() => {
      hold?.close()
      running.kill()
      server.close()
    })
    for (const settings of [
      { HOLDFAST_DATA_DIR: other },
      { HOLDFAST_DATA_DIR: real, TMPDIR: join(root, 'tmp') },
    ])
      t.match(await outcomeOf(cluster([], settings)), { code: 75, said: /a cluster runs in .* already/ })
    t.equal(beganOf(running.pid as number) !== undefined, true, 'what runs there runs on')
    await sendCommand(other, { do: 'link', from: 'a', to: 'b', cut: true })
    t.match(
      await outcomeOf(cluster(['--restart', 'x'], { HOLDFAST_DATA_DIR: other, TMPDIR: join(root, 'tmp') })),
      { code: 1, said: /there is no process x/ },
    )
    t.strictSame(
      commands.map((command) => command.do),
      ['link', 'restart'],
    )
  },
)

t.test('a start that is stopped starts nothing more, and ends what it had started', async (t) => {
  const root = t.testdir()
  const stops: [string, (child: ChildProcess, dataDir: string) => Promise<void>][] = [
    ['by a signal', async (child) => void child.kill('SIGTERM')],
    [
      'by --stop',
      async (_, dataDir) =>
        void t.match(await outcomeOf(cluster(['--stop'], { HOLDFAST_DATA_DIR: dataDir })), { code: 0 }),
    ],
  ]
  for (const [how, stop] of stops) {
    const dataDir = join(root, how.replaceAll(' ', '-'))
    mkdirSync(dataDir)
    const child = cluster([], { HOLDFAST_DATA_DIR: dataDir })
    t.teardown(() => child.kill('SIGKILL'))
    const ended = outcomeOf(child)
    const recorded = () =>
      JSON.parse(readFileSync(join(dataDir, 'running.json'), 'utf8')) as { pid: number }[]
    const started = await until(child, () => recorded().length === 4 && recorded())
    await stop(child, dataDir)
    t.match(await ended, { code: 0 }, how)
    t.notMatch(child.said(), /ready/)
    t.strictSame(recorded(), [])
    t.strictSame(
      started.filter(({ pid }) => beganOf(pid) !== undefined),
      [],
      'nothing runs any more',
    )
  }
})

t.test('faults of a start are reported before anything is started or written', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const faulty = { HOLDFAST_DATA_DIR: dataDir, HOLDFAST_API_PORT: 'abc', HOLDFAST_GUEST_CONTENTS: '-1' }
  for (const words of [[], ['--detach']])
    t.match(await outcomeOf(cluster(words, faulty)), {
      code: 78,
      said: /^cluster: the settings have 2 faults:\n {2}HOLDFAST_API_PORT is "abc".*\n {2}HOLDFAST_GUEST_CONTENTS is "-1"/,
    })
  for (const words of [['--bogus'], ['--delay', 'soon'], ['--regions', '9']])
    t.match(await outcomeOf(cluster(words, { HOLDFAST_DATA_DIR: dataDir })), {
      code: 2,
      said: /^cluster: .*--(bogus|delay|regions)[\s\S]*\nnpm run cluster -- --stop/,
    })
  t.notOk(existsSync(dataDir))
  t.match(await outcomeOf(cluster(['--stop'], { HOLDFAST_DATA_DIR: dataDir })), {
    code: 1,
    said: `cluster: no cluster runs in ${dataDir}`,
  })
})

/** The value of `holds` when it is true; while the process runs. */
async function until<T>(child: ReturnType<typeof cluster>, holds: () => T | false): Promise<T> {
  for (;;) {
    try {
      const held = holds()
      if (held !== false) return held
    } catch {
      // Not written yet.
    }
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`it ended: ${child.said()}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
