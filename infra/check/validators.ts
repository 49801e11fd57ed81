/** Each kind of file and the program that reads it in production, or that program’s own checker. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { cassandraJars, onPath } from '../servers/tools.ts'
import { pypiPrograms } from '../tools/pypi-programs.ts'
import type { Sandbox } from './sandbox.ts'
import { type FoundTool, type ToolName, tool, unpackedRoot } from './tools.ts'

/** A run of a program; it succeeds when the files are good. */
export interface Check {
  what: string
  tool: FoundTool
  args: string[]
  cwd?: string
  /** Says that the files are bad although the program ends with 0. */
  bad?: RegExp
}

export interface Validator {
  name: string
  checks: (sandbox: Sandbox) => Check[] | Promise<Check[]>
}

/** One check for each file that fits. */
function each(
  name: ToolName,
  pattern: RegExp,
  args: (file: string, sandbox: Sandbox) => string[],
  more: Partial<Check> = {},
): Validator {
  return {
    name,
    checks: (sandbox) =>
      sandbox
        .files(pattern)
        .map((file) => ({ what: file, tool: tool(name), args: args(file, sandbox), ...more })),
  }
}

export const validators: readonly Validator[] = [
  each('nats-server', /\/etc\/holdfast\/nats\.conf$/, (file) => ['-t', '-c', file]),
  each('nginx', /\/nginx\/conf\.d\/.*\.conf$/, (file, { folder }) => nginxArguments(file, folder)),
  each('caddy', /\/Caddyfile$/, (file) => ['validate', '--adapter', 'caddyfile', '--config', file]),
  each('promtool', /\/prometheus\.yml$/, (file) => ['check', 'config', file]),
  each('amtool', /\/alertmanager\.yml$/, (file) => ['check-config', file]),
  each('compose-spec', /\/compose\.yaml$/, (file) => [file]),
  each('named-checkzone', /^dns\/(?!.*closest).*\.zone$/, (file) => [basename(file, '.zone'), file]),
  {
    name: 'kustomize',
    checks: (sandbox) =>
      sandbox
        .files(/\/kustomization\.yaml$/)
        .map((file) => ({ what: file, tool: tool('kustomize'), args: ['build', dirname(file)] })),
  },
  {
    name: 'kubernetes-validate',
    checks: async (sandbox) => {
      const files = sandbox.files(/^kubernetes\/.*\/(processes|namespace)\.yaml$/)
      return files.length === 0 ? [] : [await kubernetesCheck(files)]
    },
  },
  {
    name: 'systemd-analyze',
    checks: (sandbox) =>
      sandbox.files(/\/holdfast\.target$/).map((file) => {
        const root = file.slice(0, file.indexOf('/etc/systemd/'))
        const units = sandbox.files(/\.service$/).filter((unit) => unit.startsWith(`${root}/`))
        return {
          what: file,
          tool: tool('systemd-analyze'),
          args: [
            'verify',
            `--root=${root}`,
            '--man=no',
            '--recursive-errors=no',
            ...[file, ...units].map((unit) => basename(unit)),
          ],
          // It ends with 0 after some of its complaints.
          bad: /\S/,
        }
      }),
  },
  {
    name: 'pdnsutil',
    checks: (sandbox) =>
      sandbox.files(/^dns\/.*\.closest\.zone$/).map((file) => ({
        what: file,
        tool: tool('pdnsutil'),
        args: [`--config-dir=${powerDnsConfig(file)}`, 'check-all-zones'],
        bad: /[1-9]\d* (had )?errors|rejected, 0 new/,
      })),
  },
  {
    name: 'cassandra',
    checks: (sandbox) => {
      const files = sandbox.files(/^hosts\/.*\/cassandra\.yaml$/)
      if (files.length === 0) return []
      if (!onPath('javac'))
        throw new Error('a Java compiler is missing: install the package openjdk-17-jdk-headless')
      const source = join(import.meta.dirname, 'ReadCassandraYaml.java')
      return [
        {
          what: `${files.length} times cassandra.yaml`,
          tool: { path: 'java', env: process.env },
          args: ['-cp', join(cassandraJars(), '*'), source, ...files],
        },
      ]
    },
  },
]

/** Oldest version of Kubernetes for which the manifests are meant. Unknown fields are faults. */
const kubernetesVersion = '1.33'

/** kustomize merges files and does not know what Kubernetes takes: its schemas do. */
export async function kubernetesCheck(files: readonly string[]): Promise<Check> {
  const programs = await pypiPrograms([join(import.meta.dirname, 'pins/kubernetes-validate.txt')])
  return {
    what: `${files.length} files of Kubernetes`,
    tool: { path: join(programs, 'kubernetes-validate/bin/kubernetes-validate'), env: process.env },
    args: ['--strict', '--quiet', '-k', kubernetesVersion, ...files],
    // It ends with 0 when it has no schema for a kind.
    bad: /\S/,
  }
}

function nginxArguments(file: string, folder: string): string[] {
  const main = `${file}.check`
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (what) => `${what}_temp_path ${folder};`,
  )
  // What Debian's package has in `sites-enabled/default`, at the port that the sandbox has for 80.
  const default80 = 'server { listen 20080 default_server; listen [::]:20080 default_server; server_name _; }'
  writeFileSync(
    main,
    `pid ${folder}/nginx.pid; events {} http { access_log off; ${temporary.join(' ')} include ${file}; ${default80} }\n`,
  )
  return ['-t', '-q', '-p', folder, '-e', 'stderr', '-c', main]
}

/** @returns the folder of a PowerDNS that serves this zone. */
function powerDnsConfig(file: string): string {
  const folder = `${file}.check`
  mkdirSync(folder, { recursive: true })
  const zone = basename(file, '.closest.zone')
  writeFileSync(join(folder, 'named.conf'), `zone "${zone}" { type master; file "${file}"; };\n`)
  const modules = join(unpackedRoot(), 'usr/lib/x86_64-linux-gnu/pdns')
  writeFileSync(
    join(folder, 'pdns.conf'),
    `launch=bind\nmodule-dir=${modules}\nbind-config=${folder}/named.conf\nenable-lua-records=yes\n`,
  )
  return folder
}
