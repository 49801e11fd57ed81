/**
 * Instances for the tests of this app: on free ports, in their own directory, in this process or as
 * one.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Config } from '@holdfast/config'
import { ctl } from '@holdfast/ctl'
import { createLog } from '@holdfast/http-kit'
import { readConfig, type Standalone, startStandalone } from '../src/index.ts'

export const freePorts = {
  HOLDFAST_API_PORT: '0',
  HOLDFAST_UPLOAD_PORT: '0',
  HOLDFAST_DOWNLOAD_PORT: '0',
  HOLDFAST_ADMIN_PORT: '0',
}

/** A directory that is removed after the later teardowns. */
export function dataDir(t: { teardown(undo: () => unknown): void }): string {
  const path = mkdtempSync(join(tmpdir(), 'holdfast-standalone-'))
  t.teardown(() => rmSync(path, { recursive: true, force: true }))
  return path
}

export async function startHere(
  dataDir: string,
  more: Record<string, string> = {},
  /** What the service gets for its settings. */
  prepared: (config: Config) => Config = (config) => config,
): Promise<Standalone> {
  const env = { ...freePorts, HOLDFAST_DATA_DIR: dataDir, ...more }
  const { config, secrets } = readConfig(env, { readSecret: () => '' })
  return startStandalone({ config: prepared(config), secrets, log: createLog({ level: 'silent' }) })
}

export interface ServiceProcess {
  process: ChildProcess
  /** Hosts as the ready line names them. */
  api: string
  upload: string
  admin: string
  /** Everything it printed so far. */
  stdout(): string
  stderr(): string
  /** Its exit code, or the signal that ended it. */
  ended: Promise<number | NodeJS.Signals | null>
}

export const launcher = fileURLToPath(new URL('../../../infra/launch.sh', import.meta.url))
export const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))

/** As `npm start` does, ready or ended. */
export async function startProcess(
  dataDir: string,
  more: Record<string, string> = {},
  /**
   * @param options.errorsTo where its standard error goes instead of to `stderr()`
   * @param options.descriptors files that it may open
   */
  { errorsTo = 'pipe', descriptors }: { errorsTo?: number | 'pipe'; descriptors?: number } = {},
): Promise<ServiceProcess> {
  const env = { PATH: process.env.PATH, ...freePorts, HOLDFAST_DATA_DIR: dataDir, ...more }
  const limit = descriptors === undefined ? '' : `ulimit -n ${descriptors} && `
  const child = spawn('sh', ['-c', `${limit}exec "$0" "$1"`, launcher, main], {
    env,
    stdio: ['ignore', 'pipe', errorsTo],
  })
  const texts = { stdout: '', stderr: '' }
  const ended = new Promise<number | NodeJS.Signals | null>((resolve) => {
    child.on('close', (code, signal) => resolve(code ?? signal))
  })
  const ready = new Promise<void>((resolve) => {
    child.stdout?.on('data', (text) => {
      texts.stdout += text
      if (texts.stdout.includes('Stop:')) resolve()
    })
  })
  child.stderr?.on('data', (text) => {
    texts.stderr += text
  })
  await Promise.race([ready, ended])
  const url = (name: string) => new RegExp(`${name}: (http://\\S+)`).exec(texts.stdout)?.[1] ?? ''
  return {
    process: child,
    api: url('pages'),
    upload: url('uploads'),
    admin: url('admin'),
    stdout: () => texts.stdout,
    stderr: () => texts.stderr,
    ended,
  }
}

export interface Answer {
  status: string
  // biome-ignore lint/suspicious/noExplicitAny: answers of every kind, which the tests inspect
  data: any
}

export async function call(url: string, request: RequestInit = {}): Promise<Answer & { code: number }> {
  const response = await fetch(url, request)
  return { code: response.status, ...((await response.json()) as Answer) }
}

export async function uploadText(
  upload: string,
  { name, text, fields = {} }: { name: string; text: string; fields?: Record<string, string> },
): Promise<Answer> {
  const body = new FormData()
  for (const [field, value] of Object.entries(fields)) body.append(field, value)
  body.append('file', new Blob([text]), name)
  return call(`${upload}/uploadfile`, { method: 'POST', body })
}

/** The operator's program, with what it printed as JSON. */
export async function operator(words: string[]) {
  const printed: string[] = []
  const complained: string[] = []
  const code = await ctl(words, {
    env: {},
    readSecret: () => '',
    print: (line) => printed.push(line),
    complain: (line) => complained.push(line),
  })
  return {
    code,
    text: complained.join('\n'),
    answer: printed.length > 0 ? parsed(printed.join('\n')) : undefined,
  }
}

/** Some commands print lines for people. */
function parsed(text: string) {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
