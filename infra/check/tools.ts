/**
 * The real programs that check what is rendered. Missing ones come from the distribution's
 * packages, which are unpacked and not installed (no service starts), or from Go modules. For a
 * missing one the error says what to install.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { cacheDirectory, goProgram, natsServer, onPath } from '../servers/tools.ts'

interface Tool {
  /** Debian packages: the program's, and those of its libraries. */
  packages?: string[]
  /** Module of Go, and what its program is called. */
  module?: [path: string, program: string]
}

const tools = {
  nginx: { packages: ['nginx', 'nginx-common'] },
  caddy: { packages: ['caddy'] },
  prometheus: { packages: ['prometheus'] },
  promtool: { packages: ['prometheus'] },
  amtool: { packages: ['prometheus-alertmanager'] },
  'prometheus-alertmanager': { packages: ['prometheus-alertmanager'] },
  'named-checkzone': {
    packages: [
      ...['bind9-utils', 'bind9-libs', 'libjemalloc2', 'libmaxminddb0'],
      ...['libfstrm0', 'libprotobuf-c1', 'liblmdb0'],
    ],
  },
  pdnsutil: {
    packages: ['pdns-server', 'pdns-backend-bind', 'libluajit-5.1-2', 'libluajit-5.1-common'],
  },
  'systemd-analyze': { packages: ['systemd'] },
  openssl: { packages: ['openssl'] },
  clamd: {
    packages: [
      ...['clamav-daemon', 'libclamav12', 'libcurl4', 'libjson-c5', 'libmspack0', 'libpcre2-8-0'],
      ...['libxml2', 'libbz2-1.0', 'libssl3'],
    ],
  },
  kustomize: { module: ['sigs.k8s.io/kustomize/kustomize/v5@v5.7.1', 'kustomize'] },
  // Reads and validates a compose file as docker compose does.
  'compose-spec': { module: ['github.com/compose-spec/compose-go/v2/cmd@v2.16.2', 'cmd'] },
} satisfies Record<string, Tool>

export type ToolName = keyof typeof tools | 'nats-server'

export interface FoundTool {
  path: string
  env: NodeJS.ProcessEnv
}

/** @throws Error that says what to install. */
export function tool(name: ToolName): FoundTool {
  if (name === 'nats-server') return { path: natsServer(), env: process.env }
  const found = onPath(name)
  if (found) return { path: found, env: process.env }
  const { packages, module }: Tool = tools[name]
  const path = packages === undefined ? built(name, module) : findUnpacked(name, packages)
  if (path !== undefined) return path
  const what =
    packages === undefined
      ? `Go 1.24 or later, so that it can be built (go install ${module?.[0]})`
      : `the package ${packages[0]}`
  throw new Error(`${name} is missing: install ${what}`)
}

/** Where unpacked packages are. Some look for their parts there. */
export function unpackedRoot(): string {
  return join(cacheDirectory(), 'check', 'root')
}

function findUnpacked(name: string, packages: readonly string[]): FoundTool | undefined {
  const root = unpackedRoot()
  const find = () =>
    ['usr/bin', 'usr/sbin', 'bin'].map((folder) => join(root, folder, name)).find((path) => existsSync(path))
  if (find() === undefined && onPath('apt-get') && onPath('dpkg-deb')) {
    process.stderr.write(`holdfast: fetching ${packages.join(', ')} (once) …\n`)
    const folder = mkdtempSync(join(cacheDirectory(), 'debs-'))
    // dpkg-deb makes the last folder of the path alone.
    mkdirSync(root, { recursive: true })
    if (!download(folder, packages)) spawnSync('apt-get', ['update', '-qq'])
    if (readdirSync(folder).length > 0 || download(folder, packages))
      for (const file of readdirSync(folder).filter((one) => one.endsWith('.deb')))
        spawnSync('dpkg-deb', ['-x', join(folder, file), root])
    rmSync(folder, { recursive: true, force: true })
  }
  const path = find()
  const libraries = librariesIn(join(root, 'usr/lib'))
  return path === undefined ? undefined : { path, env: { ...process.env, LD_LIBRARY_PATH: libraries } }
}

function download(folder: string, packages: readonly string[]): boolean {
  return spawnSync('apt-get', ['download', '-qq', ...packages], { cwd: folder }).status === 0
}

function librariesIn(folder: string): string {
  const multiarch = existsSync(folder) ? readdirSync(folder).filter((name) => name.includes('-linux-')) : []
  return multiarch.map((name) => join(folder, name)).join(':')
}

function built(name: string, module: Tool['module']): FoundTool | undefined {
  const folder = join(cacheDirectory(), 'bin')
  const path = join(folder, name)
  const go = goProgram()
  if (!existsSync(path) && module !== undefined && go !== undefined) {
    process.stderr.write(`holdfast: building ${name} (once) …\n`)
    const fresh = mkdtempSync(join(cacheDirectory(), 'go-'))
    spawnSync(go, ['install', module[0]], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, GOBIN: fresh },
    })
    mkdirSync(folder, { recursive: true })
    if (existsSync(join(fresh, module[1]))) renameSync(join(fresh, module[1]), path)
    rmSync(fresh, { recursive: true, force: true })
  }
  return existsSync(path) ? { path, env: process.env } : undefined
}
