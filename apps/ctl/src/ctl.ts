/**
 * One run of the program: arguments in, lines out, an exit code. Independent of process and
 * terminal.
 */
import { parseArgs } from 'node:util'
import { type AdminCall, AdminError, AdminUnreachable, adminClient } from './admin-client.ts'
import { type Command, type Options, UsageFault } from './command.ts'
import { commands } from './commands.ts'
import { adminOf } from './config.ts'
import { noCommand } from './no-command.ts'

export interface Surroundings {
  env: NodeJS.ProcessEnv
  readSecret: (path: string) => string
  print: (line: string) => void
  complain: (line: string) => void
}

/**
 * 0: done. 1: the service refused at least one. 2: invalid arguments, nothing was done. 3: no
 * answer.
 */
export type ExitCode = 0 | 1 | 2 | 3

export async function ctl(words: readonly string[], around: Surroundings): Promise<ExitCode> {
  try {
    if (words.includes('--help') || words.includes('-h')) {
      around.print(helpFor(words))
      return 0
    }
    const { command, rest, options } = understand(words)
    const steps = planOf(command, rest, options)
    const admin = typeof options.admin === 'string' ? options.admin : undefined
    let client: AdminCall | undefined
    // Commands that call no admin host need no token and no authority.
    const call: AdminCall = (...asked) => {
      client ??= adminClient(adminOf(around.env, { admin, readSecret: around.readSecret }))
      return client(...asked)
    }
    return await runAll(steps, call, around)
  } catch (error) {
    if (error instanceof UsageFault) {
      around.complain(`ctl: ${error.message}`)
      return 2
    }
    if (!(error instanceof AdminUnreachable)) throw error
    around.complain(`ctl: ${error.message}`)
    return 3
  }
}

async function runAll(
  steps: ReturnType<Command['plan']>,
  call: AdminCall,
  { print, complain }: Surroundings,
): Promise<ExitCode> {
  let code: ExitCode = 0
  for (const { about, run } of steps) {
    try {
      const line = await run(call, complain, print)
      if (line !== undefined) print(line)
    } catch (error) {
      if (!(error instanceof AdminError)) throw error
      if (error.report !== undefined) print(error.report)
      complain(`ctl: ${about === '' ? '' : `${about}: `}${error.message}`)
      code = 1
    }
  }
  return code
}

/** @throws UsageFault that names the command. */
function planOf(command: Command, rest: string[], options: Options): ReturnType<Command['plan']> {
  try {
    return command.plan(rest, options)
  } catch (error) {
    if (!(error instanceof UsageFault)) throw error
    const usage = `${command.words} ${command.usage}`.trim()
    throw new UsageFault(`${command.words}: ${error.message}; write it like: ${usage}`)
  }
}

function commandOf(positionals: readonly string[]): Command | undefined {
  return commands.find(({ words: name }) => name === positionals.slice(0, name.split(' ').length).join(' '))
}

function understand(words: readonly string[]): { command: Command; rest: string[]; options: Options } {
  const { positionals } = parseLoosely(words)
  const command = commandOf(positionals)
  if (command === undefined) throw new UsageFault(noCommand(positionals, commands))
  const options = Object.fromEntries(
    Object.entries({ admin: 'string' as const, ...command.options }).map(([name, type]) => [name, { type }]),
  )
  try {
    const parsed = parseArgs({ args: [...words], options, allowPositionals: true })
    return {
      command,
      rest: parsed.positionals.slice(command.words.split(' ').length),
      options: parsed.values as Options,
    }
  } catch (error) {
    // The parser's text after its first sentence is advice for other programs.
    const [said] = (error as Error).message.split('. ')
    const taken = Object.keys(options).map((name) => `--${name}`)
    throw new UsageFault(`${command.words}: ${said}; it takes ${taken.join(', ')}`)
  }
}

/** The arguments that are no options, for any command: enough to find its name. */
function parseLoosely(words: readonly string[]): { positionals: string[] } {
  const taking = commands.flatMap(({ options = {} }) => Object.entries(options))
  const options = Object.fromEntries(
    [...taking, ['admin', 'string'] as const].map(([name, type]) => [name, { type }]),
  )
  return parseArgs({ args: [...words], options, allowPositionals: true, strict: false })
}

/** Of the command, of all that begin with its first word, or of all. @throws UsageFault */
function helpFor(words: readonly string[]): string {
  const { positionals } = parseLoosely(words.filter((word) => word !== '--help' && word !== '-h'))
  const [first] = positionals
  if (first === undefined) return help(commands)
  const command = commandOf(positionals)
  const group = commands.filter(({ words: name }) => name.split(' ')[0] === first)
  if (command !== undefined) return help([command])
  if (positionals.length === 1 && group.length > 0) return help(group)
  throw new UsageFault(noCommand(positionals, commands))
}

function help(shown: readonly Command[]): string {
  const lines = shown.map(({ words, usage, meaning }) => `  ${`${words} ${usage}`.trim()}\n      ${meaning}`)
  return [
    'Usage: npm run -s ctl -- <command> …',
    '',
    ...lines,
    '',
    'Options of every command:',
    '  --admin ADDR  the admin host, with or without http:// or https://; without it <HOLDFAST_ADMIN_BIND>:<HOLDFAST_ADMIN_PORT>, that is 127.0.0.1:8090',
    '  --help        this page; after a command only that one',
    '',
    'An address without a scheme is asked by TLS when HOLDFAST_TLS_CA names the authority of the cluster, unless HOLDFAST_ADMIN_TLS is off.',
    'HOLDFAST_ADMIN_TOKEN (or …_FILE) is sent when it is set; root and the user of the service need none on its own machine (Linux).',
    'Exit codes: 0 done, 1 the service refused at least one, 2 invalid arguments (nothing was done), 3 no answer.',
  ].join('\n')
}
