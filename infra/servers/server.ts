/** A third-party server process that we run: started, watched, stopped by its own id. */
import { type ChildProcess, spawn } from 'node:child_process'
import { openSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'

export interface ServerProcess {
  readonly pid: number
  /** Sends a signal: SIGSTOP and SIGCONT for pauses, SIGKILL for faults. */
  signal(name: NodeJS.Signals): void
  /** Ends it and waits for its end. */
  stop(signal?: NodeJS.Signals): Promise<void>
  /** Resolves when it ended, for any reason. */
  readonly ended: Promise<number | null>
}

/** What a caller of a slow start gives. */
export interface StartOptions {
  /** Called with the process as soon as it exists: long before it is ready. */
  started?: (server: ServerProcess) => void
  /** Aborted: no process is started any more. The caller ends one that was already started. */
  signal?: AbortSignal
}

export function startProcess(
  command: string,
  args: string[],
  options: { log: string; cwd?: string; env?: Record<string, string> },
): ServerProcess {
  const out = openSync(options.log, 'a')
  const child: ChildProcess = spawn(command, args, {
    stdio: ['ignore', out, out],
    ...(options.cwd ? { cwd: options.cwd } : {}),
    ...(options.env ? { env: options.env } : {}),
  })
  const ended = new Promise<number | null>((resolve) => {
    child.once('exit', (code) => resolve(code))
    child.once('error', () => resolve(-1))
  })
  const pid = child.pid
  if (pid === undefined) throw new Error(`${command} could not be started`)
  return {
    pid,
    ended,
    signal: (name) => void child.kill(name),
    async stop(signal = 'SIGTERM') {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGCONT')
        child.kill(signal)
      }
      await ended
    },
  }
}

/** A log's name and its last lines, for an error's message: the file may be removed soon. */
export function endOf(log: string): string {
  let text = ''
  try {
    text = readFileSync(log, 'utf8')
  } catch {
    // Without a log there are no lines.
  }
  const lines = text.trimEnd().split('\n').slice(-15)
  return [`its log is ${log}, which ends with`, ...lines.map((line) => `  ${line.slice(0, 1_000)}`)].join(
    '\n',
  )
}

/** Waits until `probe` succeeds, the process ends, or the time is over. */
export async function whenReady(
  server: ServerProcess,
  probe: () => Promise<boolean>,
  options: { timeoutMs: number; what: string; log: string },
): Promise<void> {
  let dead = false
  void server.ended.then(() => {
    dead = true
  })
  const until = Date.now() + options.timeoutMs
  while (!(await probe())) {
    if (dead) throw new Error(`${options.what} ended while it started; ${endOf(options.log)}`)
    if (Date.now() > until) {
      await server.stop('SIGKILL')
      throw new Error(`${options.what} was not ready within ${options.timeoutMs} ms; ${endOf(options.log)}`)
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Connects, sends, and reports whether the answer is accepted. */
export function ask(
  address: { host: string; port: number },
  question: Uint8Array | undefined,
  pleases: (answer: Buffer) => boolean,
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ ...address, timeout: 1000 })
    const end = (verdict: boolean): void => {
      socket.destroy()
      resolve(verdict)
    }
    socket.on('connect', () => question && socket.write(question))
    socket.on('data', (bytes) => end(pleases(bytes)))
    socket.on('error', () => end(false))
    socket.on('timeout', () => end(false))
  })
}
