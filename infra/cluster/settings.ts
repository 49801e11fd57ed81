/** The operator's settings: checked before anything starts, and passed to every process. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Environment, readClusterConfig, SettingsFault } from '@holdfast/config'
import type { LocalPlan, LocalProcess } from './planned-processes.ts'

/** Addresses and credentials: the plan sets them for each process. */
const ofThePlan =
  /^HOLDFAST_(DATA_DIR|REGION|SERVER_NAME|.*_PORT|PUBLIC_.*_URL|NATS_.*|CASSANDRA.*|CLUSTER_SECRET)$/

/** The plan always sets them. */
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
 * Those that were given; files of secrets by absolute paths, the cluster's own secret by its text.
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
  if (own) given.HOLDFAST_CLUSTER_SECRET = secrets.clusterSecret.join(' ')
  return given
}

/** The environment with which a Holdfast process starts. */
export function settingsOf(
  { settings }: LocalProcess,
  given: Record<string, string>,
): Record<string, string> {
  return {
    ...Object.fromEntries(Object.entries(given).filter(([name]) => !ofThePlan.test(name))),
    ...settings,
  }
}

/**
 * Reads the settings of every process as the process will. @throws SettingsFault naming every fault
 * once
 */
export function checkProcesses({ processes }: LocalPlan, given: Record<string, string>): void {
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
