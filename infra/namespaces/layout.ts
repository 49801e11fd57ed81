/**
 * Where the namespaces of a deployment keep things: all below one folder. Names of network
 * namespaces begin with the deployment's, because the machine has one list of them.
 *
 *   state.json       processes that run
 *   on               runs a command on a host: on par1 systemctl status
 *   ca/, secrets/    the authority with what it issued, and secrets alike on all hosts
 *   hosts/<host>/    disk/ is what the host has written, beside it its root
 *   client-<region>  names and addresses as that region's users have them
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beganOf } from '../cluster/leftovers.ts'
import type { Plan, PlannedRegion } from '../regions/plan.ts'

/** A process, and when it began: its number may be another's later. */
export interface RunningProcess {
  pid: number
  began: string
}

export interface State {
  /** Network namespaces that are whole. Undefined: an earlier release made all that there are. */
  made: string[] | undefined
  delay: RunningProcess | undefined
  hosts: Record<string, RunningProcess>
}

export interface Layout {
  folder: string
  plan: Plan
}

export const allHosts = ({ plan }: Layout) => plan.regions.flatMap(({ hosts }) => hosts)

export function hostFolder({ folder }: Layout, host: string): string {
  return join(folder, 'hosts', host)
}

/** The namespace of a host, a client (`client-<region>`) or the router of a region (`<region>`). */
export function netnsOf({ plan }: Layout, name: string): string {
  return `hf-${plan.deployment.name}-${name}`
}

export function clientOf({ code }: PlannedRegion): string {
  return `client-${code}`
}

/** First two numbers of the addresses of a region's users, who may use each of them. */
export function clientNetwork(at: number): string {
  return `100.${64 + at}`
}

/** Whether this folder has namespaces already. */
export function isOurs({ folder }: Layout): boolean {
  return existsSync(join(folder, 'state.json'))
}

export function readState({ folder }: Layout): State {
  const path = join(folder, 'state.json')
  return existsSync(path)
    ? (JSON.parse(readFileSync(path, 'utf8')) as State)
    : { made: undefined, delay: undefined, hosts: {} }
}

export function writeState({ folder }: Layout, state: State): void {
  const path = join(folder, 'state.json')
  writeFileSync(`${path}.new`, JSON.stringify(state))
  renameSync(`${path}.new`, path)
}

export function runningOf(pid: number): RunningProcess {
  return { pid, began: beganOf(pid) ?? '' }
}

export function runs(process: RunningProcess | undefined): process is RunningProcess {
  return process !== undefined && process.began !== '' && beganOf(process.pid) === process.began
}

/** Where the machine has its hierarchy of control groups of version 2. */
export function controlGroups(): string {
  const [, place] = /^\S+ (\S+) cgroup2 /m.exec(readFileSync('/proc/mounts', 'utf8')) ?? []
  if (place === undefined) throw new Error('no cgroup2 is mounted; systemd needs it')
  return place
}
