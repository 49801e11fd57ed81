/**
 * Programs that people start by hand: how they answer `--help` and unknown options. And every
 * command in every document is valid for its program.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { commands } from '../apps/ctl/src/commands.ts'
import { ctl } from '../apps/ctl/src/ctl.ts'
import { scenarios } from '../bench/scenarios.ts'
import { planted } from './sim/planted.ts'

const root = join(import.meta.dirname, '..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const programs = [
  'infra/print-config.ts',
  'infra/documents/main.ts',
  'infra/release.ts',
  'bench/run.ts',
  'infra/cluster/main.ts',
  'infra/regions/main.ts',
  'infra/check/main.ts',
  'infra/capacity/main.ts',
  'test/acceptance/run.ts',
  'test/long/run.ts',
  'test/sim/run.ts',
]

function start(program: string, ...words: string[]) {
  return spawnSync(process.execPath, [program, ...words], { cwd: root, encoding: 'utf8' })
}

for (const program of programs) {
  t.test(program, async (t) => {
    const help = start(program, '--help')
    t.match(help, { status: 0, stderr: '' })
    t.match(help.stdout, /npm run/)
    const wrong = start(program, '--never-heard-of')
    t.match(wrong, { status: 2, stdout: '' })
    t.match(wrong.stderr, /never-heard-of/)
    t.ok(wrong.stderr.includes(help.stdout.trim()), 'prints its usage')
    t.notMatch(wrong.stderr, / at .*\.ts:\d/, 'without a stack')
  })
}

/** `apps/standalone/test/guides.test.ts` runs `bash` blocks as written. */
const languages = ['bash', 'ini', 'mermaid', 'sh', 'sql', 'text', 'ts', 'yaml']

interface PrintedCommand {
  document: string
  command: string
}

/**
 * Lines of `sh` blocks without their comments. Within the text, commands of npm, and what is
 * written as `ctl …`.
 */
const printed: PrintedCommand[] = execFileSync('git', ['ls-files', '*.md'], { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter((path) => path !== '')
  .flatMap((document) => {
    const text = read(document)
    const blocks = [...text.matchAll(/^ *```(\w*)\n(.*?)^ *```$/gms)]
    t.same(
      blocks.map(([, language = '']) => language).filter((language) => !languages.includes(language)),
      [],
      `${document}: blocks are ${languages.join(', ')}`,
    )
    const pictures = blocks.filter(([, language]) => language === 'text')
    t.notMatch(
      pictures.join(''),
      /^(npm|curl|node|cd|docker|install|systemctl) /m,
      `${document}: commands are in sh or bash blocks`,
    )
    const lines = blocks.flatMap(([, language, body = '']) => (language === 'sh' ? body.split('\n') : []))
    const prose = text.replace(/^ *```.*?^ *```$/gms, '')
    const spans = [...prose.matchAll(/`((?:[A-Z_]+=\S+ )*(?:npm|ctl)\s[^`]+)`/g)].map(
      ([, command = '']) => command,
    )
    return [...lines.flatMap((line) => line.split(' && ')), ...spans]
      .map((command) => command.replace(/(^| )#.*/, '').trim())
      .filter((command) => command !== '')
      .map((command) => ({ document, command }))
  })

/** Third-party programs that `test/clients` runs with these very arguments. */
const foreign = ['rclone']

/** Programs of the operator's machine. The files that they name are in the repository. */
const ofTheMachine = [
  ...['amtool', 'apt-get', 'cd', 'docker', 'export', 'install', 'kubectl', 'systemctl', 'useradd'],
  '<folder>', // `<folder>/on` of a deployment on one machine
]

/** Values that a program accepts for an option, if it accepts only some. */
const known: Readonly<Record<string, (value: string) => boolean>> = {
  'bench --only': (text) =>
    [true, false].some((quick) => scenarios(quick).some(({ name }) => name.includes(text))),
  'sim --break': (name) => name in planted,
  'test:long --only': (suite) => suites.includes(suite),
}
const suites = [...read('test/long/run.ts').matchAll(/^await suite\('([a-z-]+)'/gm)].map(([, name]) => name)

t.test('each command of a document is valid for its program', async (t) => {
  const scripts = JSON.parse(read('package.json')).scripts as Record<string, string>
  const asked = new Map<string, string[][]>()
  const directory = join(t.testdir(), 'own')
  for (const { document, command } of printed) {
    const all = wordsOf(command)
    const words = all.slice(all.findIndex((word) => !/^[A-Z_]+=/.test(word)))
    const settings = command.startsWith('export ') ? /\s([A-Z_]+)=/g : /^([A-Z_]+)=/g
    for (const [, variable = ''] of command.matchAll(settings))
      t.ok(isRead(variable), `${document}: ${command}: ${variable}`)
    const [program = '', verb = '', ...rest] = words.filter((word) => word !== '-s')
    if (foreign.includes(program)) continue
    if (ofTheMachine.includes(program)) {
      for (const file of words.filter((word) => word.startsWith('infra/')))
        t.ok(existsSync(join(root, file)), `${document}: ${command}: ${file}`)
      const inside = words.indexOf('ctl')
      if (inside !== -1) await checkCtl(`${document}: ${command}`, words.slice(inside + 1))
      continue
    }
    if (program === 'ctl') {
      t.not(words[1], '--', `${document}: ${command}: only npm needs --`)
      // A single name means the command; a name of a group means its commands.
      const name = words.slice(1).join(' ')
      if (!commands.some((each) => each.words === name || each.words.startsWith(`${name} `)))
        await checkCtl(`${document}: ${command}`, words.slice(1))
      continue
    }
    if (program !== 'npm') {
      t.fail(`${document}: ${command}: a document names commands of npm`)
      continue
    }
    if (['install', 'ci', 'rebuild'].includes(verb)) continue
    const script = verb === 'run' ? rest[0] : verb
    // `test/install.test.ts` runs it with its options.
    if (script === 'install:production') continue
    const options = rest.includes('--') ? rest.slice(rest.indexOf('--') + 1) : []
    if (script === undefined || scripts[script] === undefined)
      t.fail(`${document}: ${command}: no such script`)
    else if (script === 'test') checkFiles(`${document}: ${command}`, options)
    else if (script === 'ctl') await checkCtl(`${document}: ${command}`, options)
    else if (options.length > 0) asked.set(script, [...(asked.get(script) ?? []), options])
  }
  for (const [script, invocations] of asked) {
    const program = /\S+\.ts/.exec(scripts[script] ?? '')?.[0] ?? ''
    t.ok(programs.includes(program), `${script} runs ${program}`)
    for (const options of invocations) checkValues(script, program, options)
    if (start(program, ...invocations.flat(), '--help').status === 0) continue
    for (const options of invocations)
      t.equal(start(program, ...options, '--help').status, 0, `npm run ${script} -- ${options.join(' ')}`)
  }

  function checkFiles(command: string, files: readonly string[]): void {
    for (const file of files.filter((word) => !/^[-<]/.test(word)))
      t.not(globSync(file, { cwd: root }).length, 0, `${command}: ${file}`)
  }

  /** The arguments of a program after its options: names, and files of deployments. */
  function checkValues(script: string, program: string, options: readonly string[]): void {
    const command = `npm run ${script} -- ${options.join(' ')}`
    for (const [at, option] of options.entries()) {
      const isKnown = known[`${script} ${option}`]
      const value = options[at + 1] ?? ''
      if (isKnown !== undefined && !/^[A-Z<]/.test(value)) t.ok(isKnown(value), `${command}: ${value}`)
    }
    if (script !== 'infra' || options[0]?.startsWith('--')) return
    const [verb = '', file = ''] = options
    t.match(read(program), `npm run -s infra -- ${verb} <file>`, `${command}: ${verb}`)
    if (!/^[<$]|^$/.test(file)) t.ok(existsSync(join(root, file)), `${command}: ${file}`)
  }

  /**
   * No process listens at the address, and the directory has no backup. So valid arguments end
   * without an answer. Commands that need only a directory of their own are run.
   */
  async function checkCtl(command: string, words: readonly string[]): Promise<void> {
    const env = { HOLDFAST_ADMIN_BIND: '127.0.0.1', HOLDFAST_ADMIN_PORT: '1' }
    const toHost = words
      .filter((word, at) => word !== '--admin' && words[at - 1] !== '--admin')
      .map((word) => (word === '<directory>' ? directory : /^(N|DAYS|BYTES)$/.test(word) ? '7' : word))
    const said: string[] = []
    const code = await ctl(toHost, {
      env,
      readSecret: () => '',
      print: () => {},
      complain: (line) => said.push(line),
    })
    const noBackup = said.some((line) => line.endsWith('does not exist'))
    const isDone = code === 0 && toHost.includes(directory)
    t.ok(code === 3 || noBackup || isDone || toHost.includes('--help'), `${command}: ${said.join(' ')}`)
  }
})

/** Whether a program of the repository or a test reads this variable of the environment. */
function isRead(variable: string): boolean {
  const pattern = `env\\.${variable}\\b|env, '${variable}'`
  return spawnSync('git', ['grep', '-qE', pattern, '--', '*.ts', '*.mjs'], { cwd: root }).status === 0
}

/** Brackets and dots of optional parts are removed; a quoted text is one word. */
function wordsOf(command: string): string[] {
  const words = command.replace(/[[\]…]/g, '').match(/'[^']*'|"[^"]*"|<[^>]*>|\S+/g) ?? []
  return words.map((word) => word.replace(/^['"]|['"]$/g, ''))
}
