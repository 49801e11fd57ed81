/** rclone as its users run it, with `*.gofile.io` led to our hosts. Nothing of the machine is changed. */
import { execFile, spawnSync } from 'node:child_process'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Standalone } from '../support/standalone.ts'
import { makeAuthority, TlsProxy } from './tls-proxy.ts'

const builder = fileURLToPath(new URL('../../infra/tools/rclone.mjs', import.meta.url))
/** Where the names point to inside the namespace: loopback, and nobody else's. */
const hostAddress = '127.76.67.1'
const hostNames = [
  'api',
  'upload',
  'store1',
  ...['eu-par', 'na-phx', 'na-nyc', 'ap-sgp', 'ap-hkg', 'ap-tyo', 'ap-syd', 'sa-sao'].map(
    (code) => `upload-${code}`,
  ),
]
export const publicDownloadUrl = 'https://store1.gofile.io'
/** Longest run of one command. */
const commandTimeoutMs = 60_000

/** Path of an rclone with the gofile backend; built on the first call. @throws naming what the machine lacks. */
export function rcloneProgram(): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [builder], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  })
  if (status !== 0) throw new Error(stderr.trim())
  return stdout.trim()
}

export class Rclone {
  /** How the names are led here: by a hosts file of its own, or by a proxy where namespaces are not allowed. */
  readonly way: 'hosts file' | 'proxy'
  readonly proxy: TlsProxy
  readonly #program: string
  readonly #environment: Record<string, string>
  readonly #hostsFile: string

  /** @param folder for its configuration, hosts file and certificates. */
  static async open(
    folder: string,
    { service, token }: { service: Standalone; token: string },
  ): Promise<Rclone> {
    const program = rcloneProgram()
    const authority = await makeAuthority(folder, 'gofile.io')
    const proxy = new TlsProxy(authority, (host) => upstreamOf(service, host))
    const hostsFile = join(folder, 'hosts')
    await copyFile('/etc/hosts', hostsFile).catch(() => writeFile(hostsFile, '127.0.0.1 localhost\n'))
    const names = hostNames.map((name) => `${hostAddress} ${name}.gofile.io\n`).join('')
    await writeFile(hostsFile, `${await readFile(hostsFile, 'utf8')}\n${names}`)
    const config = join(folder, 'rclone.conf')
    await writeFile(config, `[remote]\ntype = gofile\naccess_token = ${token}\n`)
    const environment: Record<string, string> = {
      PATH: process.env.PATH ?? '',
      HOME: folder,
      RCLONE_CONFIG: config,
      SSL_CERT_FILE: authority.caFile,
      SSL_CERT_DIR: '/nonexistent',
    }
    const ownHosts =
      mountNamespaces(hostsFile) &&
      (await proxy.listenAsHost(hostAddress).then(
        () => true,
        () => false,
      ))
    if (!ownHosts) environment.HTTPS_PROXY = await proxy.listenAsProxy()
    return new Rclone(ownHosts ? 'hosts file' : 'proxy', { program, proxy, environment, hostsFile })
  }

  private constructor(
    way: Rclone['way'],
    parts: { program: string; proxy: TlsProxy; environment: Record<string, string>; hostsFile: string },
  ) {
    this.way = way
    this.proxy = parts.proxy
    this.#program = parts.program
    this.#environment = parts.environment
    this.#hostsFile = parts.hostsFile
  }

  /** Runs one command; resolves with what it printed. @throws with its messages when it fails. */
  run(args: string[], options: { input?: string | Buffer } = {}): Promise<string> {
    const [command, ...before] =
      this.way === 'proxy' ? [this.#program] : [...withHosts(this.#hostsFile), this.#program]
    return new Promise((resolve, reject) => {
      const child = execFile(
        command as string,
        [...before, ...args, '--retries', '1', '--low-level-retries', '2'],
        { env: this.#environment, timeout: commandTimeoutMs, maxBuffer: 1 << 26 },
        (error, stdout, stderr) =>
          error ? reject(new Error(`rclone ${args.join(' ')}: ${stderr || error.message}`)) : resolve(stdout),
      )
      child.stdin?.end(options.input ?? '')
    })
  }

  /** Server-side copies and moves want to see what was made. */
  runPreferring(args: string[]): Promise<string> {
    return this.run([...args, '--header', 'Prefer: return=representation'])
  }

  close(): Promise<void> {
    return this.proxy.close()
  }
}

function upstreamOf(service: Standalone, host: string): string {
  if (host.startsWith('api.')) return service.api
  return host.startsWith('upload') ? service.upload : service.download
}

/** Runs what follows in a mount namespace of its own that sees another hosts file. */
function withHosts(hostsFile: string): string[] {
  return ['unshare', '--mount', 'sh', '-c', 'mount --bind "$0" /etc/hosts && exec "$@"', hostsFile]
}

function mountNamespaces(hostsFile: string): boolean {
  const [command, ...args] = withHosts(hostsFile)
  return spawnSync(command as string, [...args, 'true']).status === 0
}
