/** The operator's settings: found wrong before anything starts, and handed on to every process. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Environment, readClusterConfig, SettingsFault } from '@holdfast/process'
import type { Plan, PlannedProcess } from './plan.ts'

/** Settings that say where something is, and how to get in: the plan's own for each process. */
const ofThePlan =
  /^HOLDFAST_(DATA_DIR|REGION|SERVER_NAME|.*_PORT|PUBLIC_.*_URL|NATS_.*|CASSANDRA.*|CLUSTER_SECRET)$/

/** Stand for what the plan says, whatever was given. */
const planned = {
  HOLDFAST_NODE_NAME: 'any',
  HOLDFAST_REGION: 'eu-par',
  HOLDFAST_REGIONS: 'eu-par',
  HOLDFAST_CASSANDRA: 'eu-par=127.0.0.1:9042',
  HOLDFAST_CONTROL_PORT: '0',
  HOLDFAST_BYTES_PORT: '0',
}

const readSecret = (path: string) => readFileSync(path, 'utf8')

/**
 * Those that were given; files of secrets by paths that mean the same to a process elsewhere, the
 * cluster's own secret by its text.
 * @throws SettingsFault naming every fault
 */
export function givenSettings(env: Environment): Record<string, string> {
  const given: Record<string, string> = {}
  for (const [name, value] of Object.entries(env))
    if (name.startsWith('HOLDFAST_') && value) given[name] = name.endsWith('_FILE') ? resolve(value) : value
  const own = (given.HOLDFAST_CLUSTER_SECRET ?? given.HOLDFAST_CLUSTER_SECRET_FILE) !== undefined
  const secret = own ? {} : { HOLDFAST_CLUSTER_SECRET: 'drawn-for-the-plan' }
  const { secrets } = readClusterConfig({ ...given, ...planned, ...secret }, { readSecret })
  delete given.HOLDFAST_CLUSTER_SECRET_FILE
  if (own) given.HOLDFAST_CLUSTER_SECRET = secrets.clusterSecret
  return given
}

/** What a process of ours is started with. */
export function settingsOf(
  { settings }: PlannedProcess,
  given: Record<string, string>,
): Record<string, string> {
  return {
    ...Object.fromEntries(Object.entries(given).filter(([name]) => !ofThePlan.test(name))),
    ...settings,
  }
}

/**
 * Reads the settings of every process as it will itself. @throws SettingsFault naming every fault
 * once
 */
export function checkProcesses({ processes }: Plan, given: Record<string, string>): void {
  const faults = processes
    .filter(({ admin }) => admin !== null)
    .flatMap((process) => {
      try {
        readClusterConfig(settingsOf(process, given), { readSecret })
        return []
      } catch (error) {
        if (error instanceof SettingsFault) return error.faults
        throw error
      }
    })
  if (faults.length > 0) throw new SettingsFault([...new Set(faults)])
}
