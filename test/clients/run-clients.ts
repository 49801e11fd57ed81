/**
 * Runs the clients in separate namespaces: a network with only loopback, so that no built-in name
 * resolves elsewhere, and mounts for a private hosts file and authority. Nothing of the machine is
 * changed.
 */
import { spawn, spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { pypiPrograms } from '../../infra/tools/pypi-programs.ts'
import type { Row } from './steps.ts'
import type { Tools } from './world.ts'

const inside = fileURLToPath(new URL('./inside.ts', import.meta.url))
const tool = (name: string) => fileURLToPath(new URL(`../../infra/tools/${name}`, import.meta.url))

export interface ClientsOptions {
  /** Larger files and folders. */
  full: boolean
  /** Only the clients whose names contain this. */
  only?: string
  /** Called after every step. */
  report?: (row: Row) => void
}

/** @throws naming what the machine lacks. */
export async function runClients({ full, only = '', report }: ClientsOptions): Promise<Row[]> {
  const tools: Tools = { python: await pypiPrograms(pins()), rclone: brought('rclone.mjs') }
  const [command, ...before] = namespaces()
  const options = JSON.stringify({ tools, full, only })
  const child = spawn(command, [...before, process.execPath, inside, options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', resolve)
  })
  const rows: Row[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    const row = JSON.parse(line) as Row
    rows.push(row)
    report?.(row)
  }
  const code = await ended
  if (code !== 0) throw new Error(`the clients' program ended with ${code} after ${rows.length} steps`)
  return rows
}

/** A file for each Python client. */
function pins(): string[] {
  const folder = fileURLToPath(new URL('./pins/', import.meta.url))
  return readdirSync(folder).map((file) => join(folder, file))
}

/** Where a tool installed its files. */
function brought(name: string): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [tool(name)], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  })
  if (status !== 0) throw new Error(stderr.trim())
  return stdout.trim()
}

function namespaces(): [string, ...string[]] {
  const ways: [string, ...string[]][] = [
    ['unshare', '--net', '--mount'],
    ['unshare', '--user', '--map-root-user', '--net', '--mount'],
  ]
  const works = ways.find(
    ([command, ...args]) => spawnSync(command, [...args, 'ip', 'link', 'set', 'lo', 'up']).status === 0,
  )
  if (works === undefined)
    throw new Error(
      'the clients need a network and a mount namespace: unshare and ip (Debian: util-linux, iproute2), and either root or user namespaces (sysctl kernel.unprivileged_userns_clone=1; in a container --cap-add SYS_ADMIN)',
    )
  return works
}
