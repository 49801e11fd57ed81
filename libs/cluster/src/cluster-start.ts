import { readFileSync } from 'node:fs'
import { commit, runMain, version } from '@holdfast/bootstrap'
import {
  type ClusterConfig,
  type ClusterSecrets,
  clusterSettings,
  describeSettings,
  type Environment,
  readClusterConfig,
  type SettingDescription,
  settings,
} from '@holdfast/config'
import { createLog, standardError } from '@holdfast/http-kit'
import { type Clock, systemClock } from '@holdfast/kernel'
import type { Logger } from 'pino'
import { connectServers, type ServerConnector } from './servers/connect-servers.ts'
import { liveSecrets } from './servers/live-secrets.ts'

/** The inputs of the start of each process of a cluster. */
export interface ClusterStart {
  config: ClusterConfig
  secrets: ClusterSecrets
  /** For the operator. */
  settings: readonly SettingDescription[]
  log: Logger
  clock: Clock
  connect: ServerConnector
}

/** A process of a cluster: reads the environment, starts, stops at a signal. */
export function runClusterProcess(
  env: Environment,
  start: (
    options: ClusterStart,
  ) => Promise<{ close(): Promise<void>; readonly endReason?: string | undefined }>,
): Promise<void> {
  return runMain(async () => {
    const read = () => readClusterConfig(env, { readSecret: (path) => readFileSync(path, 'utf8') })
    const { config } = read()
    const log = createLog({ level: config.logLevel, destination: standardError() })
    log.info({ version, commit, node: config.nodeName }, 'starting')
    const running = await start({
      config,
      // Its timer ends with the process.
      secrets: liveSecrets({ read: () => read().secrets, log }),
      settings: describeSettings(env, { ...settings, ...clusterSettings }),
      log,
      clock: systemClock,
      connect: connectServers,
    })
    return {
      get endReason() {
        return running.endReason
      },
      close: () => running.close(),
    }
  })
}
