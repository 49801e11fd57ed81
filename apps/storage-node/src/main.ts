/** A storage node of a cluster: reads the environment, starts, stops at a signal. */
import { readFileSync } from 'node:fs'
import { runMain } from '@holdfast/bootstrap'
import { clusterSettings, describeSettings, readClusterConfig, settings } from '@holdfast/config'
import { createLog, standardError } from '@holdfast/http-kit'
import { startStorageNode } from './start.ts'

const env = process.env

await runMain(async () => {
  const { config, secrets } = readClusterConfig(env, { readSecret: (path) => readFileSync(path, 'utf8') })
  const log = createLog({ level: config.logLevel, destination: standardError() })
  const described = describeSettings(env, { ...settings, ...clusterSettings })
  return startStorageNode({ config, secrets, settings: described, log })
})
