/** The real service as a separate process: started, killed and restarted as an operator would. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePorts } from '../../infra/servers/ports.ts'

const repository = fileURLToPath(new URL('../../', import.meta.url))
const launcherFile = 'infra/launch.sh'
const mainFile = 'apps/standalone/src/main.ts'

/** Long enough for a start on a busy machine that recovers a crashed data directory. */
const startTimeoutMs = 60_000
/** After this time a process that was asked to stop is killed and the test fails. */
const stopTimeoutMs = 30_000
/** Characters of output kept for messages. */
const outputKept = 20_000

export interface StandaloneOptions {
  /** Made (and removed at `stop`) when not given. */
  dataDir?: string
  /** Taken from the free ones when not given: api, upload, download, admin. */
  ports?: [number, number, number, number]
  /** Further `HOLDFAST_…` settings. None is inherited from the environment of the test. */
  settings?: Record<string, string>
  /** The resources that the process may use; absent: those of the test. */
  bounds?: Bounds
}

export interface Bounds {
  /** Descriptors, as `ulimit -n` sets them. */
  openFilesMax: number
  /** The JavaScript heap, MiB. */
  heapMiB: number
}

export class Standalone {
  readonly dataDir: string
  readonly ports: [number, number, number, number]
  readonly #settings: Record<string, string>
  readonly #ownsDataDir: boolean
  readonly #bounds: Bounds | undefined
  #code = repository
  #process: ChildProcess | undefined
  #output = ''

  /** Resolves when `/readyz` answers 200. */
  static async start(options: StandaloneOptions = {}): Promise<Standalone> {
    const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'holdfast-test-')))
    const ports = options.ports ?? ((await freePorts(4)) as [number, number, number, number])
    const ownsDataDir = options.dataDir === undefined
    const service = new Standalone(dataDir, ports, options.settings ?? {}, ownsDataDir, options.bounds)
    await service.start()
    return service
  }

  constructor(
    dataDir: string,
    ports: [number, number, number, number],
    settings: Record<string, string>,
    ownsDataDir: boolean,
    bounds?: Bounds,
  ) {
    this.dataDir = dataDir
    this.ports = ports
    this.#settings = settings
    this.#ownsDataDir = ownsDataDir
    this.#bounds = bounds
  }

  get api(): string {
    return `http://127.0.0.1:${this.ports[0]}`
  }
  get upload(): string {
    return `http://127.0.0.1:${this.ports[1]}`
  }
  get download(): string {
    return `http://127.0.0.1:${this.ports[2]}`
  }
  get admin(): string {
    return `http://127.0.0.1:${this.ports[3]}`
  }
  get outbox(): string {
    return join(this.dataDir, 'outbox')
  }
  /** Output of the process since its last start, for messages. */
  get output(): string {
    return this.#output
  }
  get pid(): number | undefined {
    return this.#process?.pid
  }
  /** The code of a process that ended by itself; null: it runs, or a signal ended it. */
  get exitCode(): number | null {
    return this.#process?.exitCode ?? null
  }
  /** Whether the started process runs: false when it ended by itself. */
  get running(): boolean {
    return this.#process !== undefined && this.#process.exitCode === null && this.#process.signalCode === null
  }

  /**
   * Starts the process on the same data directory and ports; resolves when it is ready.
   * @param code folder of the sources, from now on; those of this repository at first
   */
  async start({ code = this.#code }: { code?: string } = {}): Promise<void> {
    this.#code = code
    if (!existsSync(join(code, mainFile))) throw new Error(`${mainFile} is missing in ${code}`)
    const [api, upload, download, admin] = this.ports.map(String)
    const [command, ...args] = withBounds(code, this.#bounds)
    const child = spawn(command, args, {
      cwd: code,
      env: {
        ...inherited(),
        HOLDFAST_DATA_DIR: this.dataDir,
        HOLDFAST_API_PORT: api,
        HOLDFAST_UPLOAD_PORT: upload,
        HOLDFAST_DOWNLOAD_PORT: download,
        HOLDFAST_ADMIN_PORT: admin,
        HOLDFAST_EXPIRY_SWEEP_SECONDS: '1',
        HOLDFAST_RATE_LIMITS: 'off',
        ...this.#settings,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#process = child
    this.#output = ''
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (chunk: Buffer) => {
        this.#output = (this.#output + chunk.toString()).slice(-outputKept)
      })
    await this.#ready(child)
  }

  /** The process dies now, as from a power cut of its machine's CPU: nothing is flushed. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  /** Sends SIGTERM; resolves with its exit code. The data directory stays. */
  async terminate(): Promise<number | null> {
    return this.#end('SIGTERM')
  }

  /** Ends it and removes the data directory if it was made here. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM')
    if (this.#ownsDataDir) await rm(this.dataDir, { recursive: true, force: true })
  }

  async #ready(child: ChildProcess): Promise<void> {
    const deadline = Date.now() + startTimeoutMs
    while (Date.now() < deadline) {
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error(
          `the service ended at its start (${child.exitCode ?? child.signalCode}):\n${this.#output}`,
        )
      const ready = await fetch(`${this.admin}/readyz`, { signal: AbortSignal.timeout(2_000) }).catch(
        () => null,
      )
      await ready?.arrayBuffer()
      if (ready?.ok) return
      await new Promise((later) => setTimeout(later, 50))
    }
    child.kill('SIGKILL')
    throw new Error(`the service was not ready in ${startTimeoutMs} ms:\n${this.#output}`)
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null> {
    const child = this.#process
    this.#process = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null)
      return child?.exitCode ?? null
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
    child.kill(signal)
    const stuck = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs)
    await ended
    clearTimeout(stuck)
    return child.exitCode
  }
}

function withBounds(code: string, bounds: Bounds | undefined): [string, ...string[]] {
  const launcher = join(code, launcherFile)
  const main = join(code, mainFile)
  if (bounds === undefined) return [launcher, main]
  const node = [launcher, `--max-old-space-size=${bounds.heapMiB}`, main]
  return ['sh', '-c', 'ulimit -n "$0" && exec "$@"', String(bounds.openFilesMax), ...node]
}

function inherited(): Record<string, string> {
  const kept: Record<string, string> = {}
  for (const name of ['PATH', 'HOME', 'TMPDIR', 'LANG', 'SystemRoot'])
    if (process.env[name] !== undefined) kept[name] = process.env[name]
  return kept
}
