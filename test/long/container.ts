/**
 * The image of infra/deploy, built by buildah and run by podman as compose runs it: by a user
 * without rights, the root read-only, a volume for the data. Its base is made of Debian's packages
 * here, so that no registry of images is needed. The acceptance suite runs against it.
 *
 * Only root can, and the machine has buildah, podman and mmdebstrap.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePorts } from '../../infra/servers/ports.ts'
import { onPath } from '../../infra/servers/tools.ts'

const root = join(import.meta.dirname, '../..')
const packages = ['buildah', 'podman', 'mmdebstrap']
const debian = 'localhost/debian'
const withNpm = 'localhost/debian-npm'
const image = 'localhost/holdfast'
const certificates = '/etc/ssl/certs/ca-certificates.crt'
/** The base has 180 MB; Debian's slim image has 75. */
const sizeMost = 450_000_000

/** @returns figures. @throws AssertionError, or an Error that says what to install */
export async function containerTrial(report: (line: string) => void): Promise<string> {
  const missing = packages.filter((name) => onPath(name) === undefined)
  if (missing.length > 0) throw new Error(`install the packages ${missing.join(', ')}`)
  if (process.getuid?.() !== 0) throw new Error('only root can build and run containers here')
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-container-'))
  const machine = await Machine.start(folder)
  try {
    report('  making a base of Debian packages …')
    machine.makeBases(folder)
    report('  building the image …')
    machine.build()
    const bytes = Number(machine.podman('inspect', '--format', '{{.Size}}', image))
    assert.ok(bytes <= sizeMost, `the image has ${bytes} bytes`)
    const ports = await freePorts(4)
    let container = await machine.run(ports)
    const firstMs = await container.ready()
    container.isClosed()
    const stored = await container.upload('kept over a restart')
    report('  the acceptance suite …')
    const accepted = await container.accept()
    container.stop()
    container = await machine.run(ports)
    const nextMs = await container.ready()
    assert.equal(await container.download(stored), 'kept over a restart')
    container.stop()
    return [
      `  image               ${Math.round(bytes / 1e6)} MB`,
      `  ready               after ${firstMs} ms, over its data after ${nextMs} ms`,
      `  acceptance          ${accepted}`,
    ].join('\n')
  } finally {
    machine.end()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Its containers and mounts are in a mount namespace of their own. */
class Machine {
  private readonly storage: readonly string[]
  private readonly keeper: ChildProcess

  private constructor(folder: string, keeper: ChildProcess) {
    this.storage = ['--root', join(folder, 'storage'), '--runroot', join(folder, 'run')]
    this.keeper = keeper
  }

  static async start(folder: string): Promise<Machine> {
    // crun starts nothing where cgroups of version 1 and 2 are mixed.
    const only1 = 'umount /sys/fs/cgroup/unified 2>/dev/null'
    const keeper = spawn('unshare', ['-m', 'sh', '-c', `${only1}; echo; exec sleep infinity`], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(keeper.stdout, 'data')
    return new Machine(folder, keeper)
  }

  end(): void {
    this.podman('rm', '--all', '--force', '--time', '0')
    this.keeper.kill('SIGKILL')
  }

  podman(...args: string[]): string {
    return this.output('podman', args)
  }

  makeBases(folder: string): void {
    const tar = join(folder, 'debian.tar')
    const made = ['--variant=minbase', '--include=ca-certificates', '--quiet', 'bookworm', tar]
    output('mmdebstrap', made)
    this.podman('import', '--quiet', tar, debian)
    rmSync(tar)
    const base = this.output('buildah', ['from', debian])
    const npm = dirname(dirname(realpathSync(onPath('npm') as string)))
    const copies = [
      [process.execPath, '/usr/local/bin/node'],
      [npm, '/usr/local/lib/node_modules/npm'],
      ...(existsSync(certificates) ? [[certificates, certificates]] : []),
    ] as [string, string][]
    for (const [from, to] of copies) this.output('buildah', ['copy', '--quiet', base, from, to])
    const link = ['ln', '-s', '../lib/node_modules/npm/bin/npm-cli.js', '/usr/local/bin/npm']
    this.output('buildah', ['run', '--isolation', 'chroot', base, ...link])
    this.output('buildah', ['commit', '--quiet', '--rm', base, withNpm])
  }

  /** With this machine's registry of packages. */
  build(): void {
    const settings = [
      [output('npm', ['config', 'get', 'globalconfig']), '/usr/local/etc/npmrc'],
      [join(homedir(), '.npmrc'), '/root/.npmrc'],
    ] as [string, string][]
    const mounts = settings.flatMap(([from, to]) => (existsSync(from) ? ['-v', `${from}:${to}:ro`] : []))
    const bases = ['--build-arg', `BUILD_IMAGE=${withNpm}`, '--build-arg', `RUN_IMAGE=${debian}`]
    // The form of docker has the health check.
    const how = ['--format', 'docker', '--isolation', 'chroot', '--network', 'host']
    const file = join(root, 'infra/deploy/Containerfile')
    this.output('buildah', ['build', ...how, ...mounts, ...bases, '-f', file, '-t', image, root])
  }

  async run(ports: readonly number[]): Promise<Container> {
    const [api, upload, download, admin] = ports
    const settings = {
      HOLDFAST_BIND: '127.0.0.1',
      HOLDFAST_API_PORT: api,
      HOLDFAST_UPLOAD_PORT: upload,
      HOLDFAST_DOWNLOAD_PORT: download,
      HOLDFAST_ADMIN_PORT: admin,
      // The acceptance suite needs these values.
      HOLDFAST_EXPIRY_SWEEP_SECONDS: 1,
      HOLDFAST_RATE_LIMITS: 'off',
    }
    const id = this.podman(
      ...['run', '--detach', '--network', 'host', '--read-only', '--cap-drop', 'ALL'],
      ...[
        '--security-opt',
        'no-new-privileges',
        '--ulimit',
        'nofile=4096:4096',
        '--ulimit',
        'nproc=4096:4096',
      ],
      ...['--volume', 'data:/var/lib/holdfast'],
      ...Object.entries(settings).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
      image,
    )
    const volume = this.podman('volume', 'inspect', '--format', '{{.Mountpoint}}', 'data')
    return new Container(this, id, ports, volume)
  }

  private output(program: string, args: readonly string[]): string {
    const space = ['-m', '-t', String(this.keeper.pid)]
    return output('nsenter', [...space, program, ...this.storage, ...args])
  }
}

class Container {
  private readonly machine: Machine
  private readonly id: string
  private readonly hosts: { api: string; upload: string; download: string; admin: string }
  private readonly volume: string
  private readonly started = performance.now()

  constructor(machine: Machine, id: string, ports: readonly number[], volume: string) {
    this.machine = machine
    this.id = id
    const [api, upload, download, admin] = ports.map((port) => `http://127.0.0.1:${port}`) as [
      ...[string, string, string, string],
    ]
    this.hosts = { api, upload, download, admin }
    this.volume = volume
  }

  /** @returns milliseconds since its start */
  async ready(): Promise<number> {
    for (;;) {
      const answer = await fetch(`${this.hosts.admin}/readyz`).catch(() => undefined)
      if (answer?.ok) return Math.round(performance.now() - this.started)
      const state = this.machine.podman('inspect', '--format', '{{.State.Status}}', this.id)
      assert.equal(state, 'running', this.machine.podman('logs', this.id))
      await new Promise((later) => setTimeout(later, 50))
    }
  }

  isClosed(): void {
    this.machine.podman('healthcheck', 'run', this.id)
    assert.equal(this.inside('id', '-u'), '1000')
    const tried = 'for f in / /opt/holdfast /etc; do ! touch $f/x 2>/dev/null || echo $f; done'
    assert.equal(this.inside('sh', '-c', tried), '', 'nothing but the data can be written')
    assert.equal(JSON.parse(this.inside('ctl', 'status')).role, 'standalone')
  }

  async upload(text: string): Promise<{ id: string; guestToken: string }> {
    const body = new FormData()
    body.set('file', new Blob([text]), 'kept.txt')
    const answer = await fetch(`${this.hosts.upload}/uploadfile`, { method: 'POST', body })
    assert.equal(answer.status, 200)
    return ((await answer.json()) as { data: { id: string; guestToken: string } }).data
  }

  async download({ id, guestToken }: { id: string; guestToken: string }): Promise<string> {
    const headers = { authorization: `Bearer ${guestToken}` }
    return (await fetch(`${this.hosts.download}/download/${id}/kept.txt`, { headers })).text()
  }

  /** @returns its last line */
  async accept(): Promise<string> {
    const hosts = Object.entries(this.hosts).flatMap(([name, url]) => [`--${name}`, url])
    const suite = spawn(
      process.execPath,
      [join(root, 'test/acceptance/run.ts'), ...hosts, '--outbox', join(this.volume, 'outbox')],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const said = (await suite.stdout.setEncoding('utf8').toArray()).join('')
    const [code] = suite.exitCode === null ? await once(suite, 'exit') : [suite.exitCode]
    assert.equal(code, 0, said.slice(-5_000))
    return said.trimEnd().split('\n').at(-1) ?? ''
  }

  /** As `docker stop`: it drains and ends with 0. */
  stop(): void {
    this.machine.podman('stop', '--time', '35', this.id)
    assert.equal(this.machine.podman('inspect', '--format', '{{.State.ExitCode}}', this.id), '0')
  }

  private inside(...command: string[]): string {
    return this.machine.podman('exec', this.id, ...command)
  }
}

/** @throws Error with all it said */
function output(program: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error ?? stderr + stdout}`)
  return stdout.trim()
}
