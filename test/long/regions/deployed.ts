/** A deployment in namespaces, as an operator runs it. */
import { spawn } from 'node:child_process'
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import type { Layout } from '../../../infra/namespaces/layout.ts'
import { readDeployment } from '../../../infra/regions/deployment.ts'
import { isAdminByTls, planOf } from '../../../infra/regions/plan.ts'

const root = join(import.meta.dirname, '../../..')
export const threeRegions = join(root, 'infra/regions/three.yaml')

export interface Run {
  code: number | null
  out: string
  err: string
}

/** The fields of a deployment's file that trials change. */
export interface Written {
  replicas: number
  settings: Record<string, string>
  regions: { code: string; hosts: WrittenHost[] }[]
}

interface WrittenHost {
  name: string
  internal: string
  rack: string
  roles: string[]
  address?: string
  address6?: string
}

export class DeployedRegions {
  readonly file: string
  layout: Layout
  /** Certificates that users trust. */
  trusted: string

  /** @param file of the deployment @param folder of the namespaces */
  constructor(file: string, folder: string) {
    this.file = file
    this.layout = layoutOf(file, folder)
    this.trusted = join(folder, 'ca/ca.pem')
  }

  /** Writes the file with a change. @throws DeploymentFault */
  edit(change: (written: Written) => void): void {
    const written = parse(readFileSync(this.file, 'utf8')) as Written
    change(written)
    writeFileSync(this.file, stringify(written))
    this.layout = layoutOf(this.file, this.layout.folder)
  }

  get regions() {
    return this.layout.plan.regions
  }

  get hosts() {
    return this.regions.flatMap(({ hosts }) => hosts)
  }

  /** `npm run -s infra -- <verb> <file> --namespaces …`. @throws Error with what it said */
  infra(verb: 'up' | 'down' | 'status', ...words: string[]): Promise<string> {
    return this.#infra(verb, '--namespaces', this.layout.folder, ...words)
  }

  /** The same without namespaces: hosts are reached by another command. */
  infraBy(via: string, verb: 'up' | 'down' | 'status', ...words: string[]): Promise<string> {
    return this.#infra(verb, '--via', via, ...words)
  }

  async #infra(verb: string, ...words: string[]): Promise<string> {
    const all = [join(root, 'infra/regions/main.ts'), verb, this.file, ...words]
    return successful(`infra ${verb}`, await run(join(root, 'infra/launch.sh'), all))
  }

  /** On a host, as root there. */
  on(host: string, ...words: string[]): Promise<Run> {
    return run(join(this.layout.folder, 'on'), [host, ...words])
  }

  /** A script on a host. @returns what it printed. @throws Error with what it said */
  async sh(host: string, script: string): Promise<string> {
    return successful(script, await this.on(host, 'sh', '-c', script))
  }

  /** Replaces a file of a host. @throws Error with what it said */
  async write(host: string, path: string, text: string): Promise<void> {
    await this.sh(host, `echo ${Buffer.from(text).toString('base64')} | base64 -d > ${path}`)
  }

  /** A program of this repository beside the users of a region. They trust the own authority. */
  atUsersOf(region: string, program: string, ...words: string[]): Promise<Run> {
    const [command, ...rest] = this.wordsAtUsersOf(region, program, ...words)
    return run(command, rest)
  }

  /** The command line of that. */
  wordsAtUsersOf(region: string, program: string, ...words: string[]): [command: string, ...words: string[]] {
    const trust = `NODE_EXTRA_CA_CERTS=${this.trusted}`
    const start = [join(root, 'infra/launch.sh'), join(root, program), ...words]
    return [join(this.layout.folder, 'on'), `client-${region}`, 'env', trust, ...start]
  }

  /** A folder with another certificate of the own authority for the host. */
  async issued(host: string, days: number): Promise<string> {
    const ca = join(this.layout.folder, `ca-${host}-${days}`)
    rmSync(ca, { recursive: true, force: true })
    cpSync(join(this.layout.folder, 'ca'), ca, { recursive: true })
    rmSync(join(ca, host), { recursive: true })
    await certs('issue', ca, '--deployment', this.file, '--days', String(days))
    return join(ca, host)
  }

  /** `ctl certs <verb>` with the own authority; `up` copies what it makes to the hosts. */
  certs(verb: string, ...words: string[]): Promise<string> {
    return certs(verb, join(this.layout.folder, 'ca'), ...words)
  }

  /** On a host of this region, by its API process. @throws Error with what it said */
  async ctl<T>(region: string, ...words: string[]): Promise<T> {
    const [host] = this.regions.find(({ code }) => code === region)?.hosts ?? []
    const api = host?.processes.find(({ role }) => role === 'api')
    if (host === undefined || api === undefined) throw new Error(`${region} has no API process first`)
    const byTls = isAdminByTls(api)
    const said = await this.on(
      host.name,
      ...['env', '-C', '/opt/holdfast', 'HOLDFAST_ADMIN_TOKEN_FILE=/etc/holdfast/secrets/admin-token'],
      ...(byTls ? ['HOLDFAST_TLS_CA=/etc/holdfast/tls/ca.pem'] : []),
      ...['infra/launch.sh', 'apps/ctl/src/main.ts', ...words],
      ...['--admin', `${byTls ? '' : 'http://'}${host.internal}:${api.ports.admin}`],
    )
    return JSON.parse(successful(`ctl ${words.join(' ')}`, said)) as T
  }

  /** Admin addresses of the region's processes with access to accounts. */
  adminsOf(region: string): string[] {
    const hosts = this.regions.find(({ code }) => code === region)?.hosts ?? []
    return hosts.flatMap(({ internal, processes }) =>
      processes.filter(({ role }) => role === 'api').map(({ ports }) => `https://${internal}:${ports.admin}`),
    )
  }

  /** Directories of mails that hosts wrote, as paths of this machine. */
  outboxes(): string[] {
    return this.regions
      .flatMap(({ hosts }) => hosts)
      .flatMap(({ name, processes }) =>
        processes
          .filter(({ role }) => role === 'actor-host')
          .map(({ dataDir }) => join(this.layout.folder, 'hosts', name, 'disk', dataDir, 'outbox')),
      )
  }

  /** Certificates for every host of the file. */
  issue(): Promise<string> {
    return this.certs('issue', '--deployment', this.file)
  }
}

function layoutOf(file: string, folder: string): Layout {
  return { folder, plan: planOf(readDeployment(readFileSync(file, 'utf8'), file)) }
}

async function certs(...words: string[]): Promise<string> {
  const program = [join(root, 'apps/ctl/src/main.ts'), 'certs', ...words]
  return successful(`ctl certs ${words[0]}`, await run(join(root, 'infra/launch.sh'), program))
}

export function successful(what: string, { code, out, err }: Run): string {
  if (code !== 0) throw new Error(`${what} ended with ${code}: ${err.trim() || out.trim()}`)
  return out
}

export async function run(command: string, args: string[]): Promise<Run> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  return { code, out, err }
}
