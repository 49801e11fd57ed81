/** A real Prometheus with our rules, which scrapes and evaluates every second. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { tool } from '../../../infra/check/tools.ts'
import { rulesFile } from '../../../infra/observe/rules-file.ts'
import type { Times } from '../../../infra/observe/times.ts'
import { freePorts } from '../../../infra/servers/ports.ts'
import { AskedPrometheus } from './asked-prometheus.ts'

export interface Target {
  process: string
  /** `host:port` of its admin host. */
  address: string
  role: string
}

const startTimeoutMs = 60_000

export class Prometheus extends AskedPrometheus {
  readonly #child: ChildProcess
  readonly #folder: string
  readonly url: string

  private constructor(child: ChildProcess, folder: string, url: string) {
    super(
      async (verb, form) => {
        const body = new URLSearchParams(form)
        return (await fetch(`${url}/api/v1/${verb}`, { method: 'POST', body })).text()
      },
      // It has no alertmanager.
      { ofTrial: ['HoldfastAlertsUnsent'] },
    )
    this.#child = child
    this.#folder = folder
    this.url = url
  }

  /** It answers when this resolves. @throws Error that says what to install, or what it said */
  static async start(targets: readonly Target[], times: Times): Promise<Prometheus> {
    const { path, env } = tool('prometheus')
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-prometheus-'))
    const [port = 0] = await freePorts(1)
    writeFileSync(join(folder, 'holdfast.rules.yml'), rulesFile(times))
    writeFileSync(join(folder, 'prometheus.yml'), configOf(targets))
    const child = spawn(
      path,
      [
        `--config.file=${join(folder, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(folder, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
        '--log.level=error',
      ],
      { env, stdio: ['ignore', 'ignore', 'pipe'] },
    )
    let said = ''
    child.stderr.on('data', (bytes: Buffer) => {
      said = (said + bytes.toString()).slice(-10_000)
    })
    const prometheus = new Prometheus(child, folder, `http://127.0.0.1:${port}`)
    const deadline = performance.now() + startTimeoutMs
    for (;;) {
      const ready = await fetch(`${prometheus.url}/-/ready`).catch(() => undefined)
      await ready?.text()
      if (ready?.ok === true) return prometheus
      if (child.exitCode !== null || performance.now() > deadline) {
        await prometheus.stop()
        throw new Error(`Prometheus did not start:\n${said}`)
      }
      await later(100)
    }
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = new Promise((resolve) => this.#child.once('exit', resolve))
      this.#child.kill('SIGKILL')
      await ended
    }
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

export function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

function configOf(targets: readonly Target[]): string {
  return stringify({
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: ['holdfast.rules.yml'],
    scrape_configs: [
      {
        job_name: 'holdfast',
        static_configs: targets.map(({ process, address, role }) => ({
          targets: [address],
          labels: { process, machine: 'here', role },
        })),
      },
    ],
  })
}
