/**
 * The environment of the clients: the service with its default settings, a TLS proxy under the
 * clients' built-in names, and users, each with its own address and home folder. Nothing here
 * changes a client, only the machine around it.
 *
 * Runs inside the namespaces that `run-clients.ts` makes: the network has only loopback, and mounts
 * are private.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Standalone } from '../support/standalone.ts'
import { type Call, makeAuthority, TlsProxy } from './tls-proxy.ts'

const run = promisify(execFile)

const domain = 'gofile.io'
const regions = ['eu-par', 'na-phx', 'na-nyc', 'ap-sgp', 'ap-hkg', 'ap-tyo', 'ap-syd', 'sa-sao']
const names = ['', 'www.', 'api.', 'upload.', 'store1.', ...regions.map((region) => `upload-${region}.`)]
export const urls = {
  web: `https://${domain}`,
  api: `https://api.${domain}`,
  upload: `https://upload.${domain}`,
  download: `https://store1.${domain}`,
}
/** Longest run of one command. */
const commandTimeoutMs = 300_000
/** Where systems keep the authorities that they trust. */
const trustStore = '/etc/ssl/certs'

export interface Tools {
  /** Virtual environments of the Python clients, by name. */
  python: string
  rclone: string
}

export class World {
  readonly service: Standalone
  readonly tools: Tools
  readonly #folder: string
  readonly #proxy: TlsProxy
  #people = 0

  static async open(tools: Tools): Promise<World> {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-clients-'))
    await run('ip', ['link', 'set', 'lo', 'up'])
    const authority = await makeAuthority(folder, domain)
    await run('mount', ['-t', 'tmpfs', 'tmpfs', trustStore])
    await run('cp', [authority.caFile, join(trustStore, 'ca-certificates.crt')])
    const service = await Standalone.start({
      settings: {
        // The tests' other services lift the limits; here they have their defaults.
        HOLDFAST_RATE_LIMITS: 'default',
        HOLDFAST_PUBLIC_API_URL: urls.api,
        HOLDFAST_PUBLIC_UPLOAD_URL: urls.upload,
        HOLDFAST_PUBLIC_DOWNLOAD_URL: urls.download,
        HOLDFAST_PUBLIC_WEB_URL: urls.web,
        HOLDFAST_TRUST_PROXY: 'loopback',
      },
    })
    const proxy = new TlsProxy(authority, domain, (host) => upstreamOf(service, host))
    await proxy.listen()
    return new World(folder, { service, proxy, tools })
  }

  private constructor(folder: string, parts: { service: Standalone; proxy: TlsProxy; tools: Tools }) {
    this.#folder = folder
    this.service = parts.service
    this.#proxy = parts.proxy
    this.tools = parts.tools
  }

  /** A user with an empty home folder and an address of its own. */
  async person(name: string): Promise<Person> {
    const address = `127.76.67.${++this.#people}`
    const home = join(this.#folder, `${this.#people}-${name}`)
    await mkdir(home)
    const hostsFile = `${home}.hosts`
    const lines = ['127.0.0.1 localhost', ...names.map((label) => `${address} ${label}${domain}`)]
    await writeFile(hostsFile, `${lines.join('\n')}\n`)
    return new Person({ home, hostsFile, calls: this.#proxy.callsTo(address), tools: this.tools })
  }

  /** An account, made past the proxy: it is none of a client's calls. */
  async account(tier: 'guest' | 'premium'): Promise<Account> {
    const account = (await ok(
      await fetch(`${this.service.api}/accounts`, { method: 'POST' }),
    )) as unknown as Account
    if (tier === 'premium') {
      const headers = { 'content-type': 'application/json' }
      const body = JSON.stringify({ tier })
      await ok(
        await fetch(`${this.service.admin}/admin/accounts/${account.id}`, { method: 'POST', headers, body }),
      )
    }
    return account
  }

  /** A call of the API past the proxy, to inspect what a client left. */
  async api(
    method: string,
    path: string,
    { token, json }: { token?: string; json?: unknown } = {},
  ): Promise<Record<string, unknown>> {
    const headers: Record<string, string> = { 'x-website-token': 'test' }
    if (token !== undefined) headers.authorization = `Bearer ${token}`
    if (json !== undefined) headers['content-type'] = 'application/json'
    const body = json === undefined ? null : JSON.stringify(json)
    return ok(await fetch(this.service.api + path, { method, headers, body }))
  }

  /** A file in a user's folder, uploaded past the proxy. */
  async upload(name: string, content: string | Uint8Array, { token, folderId }: Destination): Promise<Item> {
    const form = new FormData()
    if (folderId !== undefined) form.set('folderId', folderId)
    form.set('file', new Blob([content as Uint8Array<ArrayBuffer>]), name)
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
    return (await ok(
      await fetch(`${this.service.upload}/uploadfile`, { method: 'POST', body: form, headers }),
    )) as unknown as Item
  }

  async folder(
    folderName: string,
    { token, folderId }: Required<Destination>,
    isPublic = true,
  ): Promise<Item> {
    const json = { parentFolderId: folderId, folderName, public: isPublic }
    return (await this.api('POST', '/contents/createFolder', { token, json })) as unknown as Item
  }

  /** The content of a folder, as the owner of this token sees it; oldest first. */
  async list(folderId: string, token: string): Promise<Item[]> {
    const { children } = await this.api('GET', `/contents/${folderId}?sortDirection=1`, { token })
    return Object.values(children as Record<string, Item>)
  }

  /** The content of a folder by name. */
  async children(folderId: string, token: string): Promise<Map<string, Item>> {
    return new Map((await this.list(folderId, token)).map((item) => [item.name, item]))
  }

  /** The content of one of our links, past the proxy. */
  async bytes(link: string, token?: string): Promise<Buffer> {
    const here = link.replace(urls.download, this.service.download)
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const answer = await fetch(here, { headers })
    assert.equal(answer.status, 200, link)
    return Buffer.from(await answer.arrayBuffer())
  }

  async close(): Promise<void> {
    await this.#proxy.close()
    await this.service.stop()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

export interface Account {
  id: string
  token: string
  rootFolder: string
}

export interface Destination {
  token?: string
  folderId?: string
}

export interface Item {
  id: string
  type: 'file' | 'folder'
  name: string
  code: string
  parentFolder: string
  size: number
  md5: string
  link: string
  downloadPage: string
  guestToken?: string
  children?: Record<string, Item>
  [field: string]: unknown
}

export interface RunOptions {
  input?: string
  env?: Record<string, string>
  cwd?: string
}

export class Person {
  readonly home: string
  /** Their calls so far, in the order in which they began. */
  readonly calls: readonly Call[]
  readonly tools: Tools
  readonly #hostsFile: string
  readonly #drivers: Driver[] = []

  constructor(parts: { home: string; hostsFile: string; calls: readonly Call[]; tools: Tools }) {
    this.home = parts.home
    this.calls = parts.calls
    this.#hostsFile = parts.hostsFile
    this.tools = parts.tools
  }

  /** Runs one command; resolves with its output. @throws with the output when it fails. */
  run(command: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
    const { program, before, env } = this.#around(command, options.env)
    return new Promise((resolve, reject) => {
      const child = execFile(
        program,
        [...before, ...args],
        {
          env,
          cwd: options.cwd ?? this.home,
          timeout: commandTimeoutMs,
          maxBuffer: 1 << 26,
        },
        (error, stdout, stderr) =>
          error
            ? reject(new Error(`${[command, ...args].join(' ')}: ${error.message}\n${stdout}\n${stderr}`))
            : resolve(stdout + stderr),
      )
      child.stdin?.on('error', () => {}).end(options.input ?? '')
    })
  }

  /** A Python client's own program. */
  python(client: string, program: string, args: readonly string[], options?: RunOptions): Promise<string> {
    return this.run(join(this.tools.python, client, 'bin', program), args, options)
  }

  /** A program that uses a client library: `drivers/<driver>`, with that client's Python. */
  driver(client: string, driver: string): Driver {
    const script = fileURLToPath(new URL(`./drivers/${driver}`, import.meta.url))
    const { program, before, env } = this.#around(join(this.tools.python, client, 'bin/python'))
    const started = new Driver(spawn(program, [...before, '-B', script], { env, cwd: this.home }))
    this.#drivers.push(started)
    return started
  }

  /** Ends the drivers, also those of an aborted client. */
  async close(): Promise<void> {
    await Promise.all(this.#drivers.map((driver) => driver.end()))
  }

  #around(command: string, env: Record<string, string> = {}) {
    const [program, ...before] = [
      ...['unshare', '--mount', 'sh', '-c', 'mount --bind "$0" /etc/hosts && exec "$@"', this.#hostsFile],
      command,
    ]
    const bundle = join(trustStore, 'ca-certificates.crt')
    return {
      program: program as string,
      before,
      env: {
        PATH: process.env.PATH ?? '',
        HOME: this.home,
        LANG: 'C.UTF-8',
        // For clients that bring their own authorities (certifi) or use another place.
        SSL_CERT_FILE: bundle,
        REQUESTS_CA_BUNDLE: bundle,
        CURL_CA_BUNDLE: bundle,
        ...env,
      },
    }
  }
}

/**
 * A process that reads one call per line as JSON, `{do, ...}`, and answers each with a line `{ok}`
 * or `{error}`.
 */
class Driver {
  readonly #process: ChildProcess
  readonly #answers: AsyncIterator<string>
  #errors = ''

  constructor(child: ChildProcess) {
    this.#process = child
    const { stdout, stderr } = child as { stdout: NodeJS.ReadableStream; stderr: NodeJS.ReadableStream }
    this.#answers = createInterface({ input: stdout })[Symbol.asyncIterator]()
    stderr.on('data', (text: Buffer) => {
      this.#errors += text.toString()
    })
    child.stdin?.on('error', () => {})
  }

  /** @throws with the exception's name and text when the client threw. */
  async call<T = Record<string, unknown>>(name: string, args: Record<string, unknown> = {}): Promise<T> {
    this.#process.stdin?.write(`${JSON.stringify({ do: name, ...args })}\n`)
    const late = setTimeout(() => this.#process.kill('SIGKILL'), commandTimeoutMs)
    const { value, done } = await this.#answers.next()
    clearTimeout(late)
    if (done) throw new Error(`${name}: the driver ended\n${this.#errors}`)
    const answer = JSON.parse(value) as { ok?: T; error?: string }
    if (answer.error !== undefined) throw new Error(`${name}: ${answer.error}`)
    return answer.ok as T
  }

  async end(): Promise<void> {
    this.#process.stdin?.end()
    if (this.#process.exitCode === null && this.#process.signalCode === null)
      await once(this.#process, 'exit')
  }
}

function upstreamOf(service: Standalone, host: string): string {
  if (host.startsWith('upload')) return service.upload
  return host.startsWith('store') ? service.download : service.api
}

async function ok(answer: Response): Promise<Record<string, unknown>> {
  const { status, data } = (await answer.json()) as { status: string; data: Record<string, unknown> }
  if (status !== 'ok') throw new Error(`${answer.url} answered ${status}`)
  return data
}
