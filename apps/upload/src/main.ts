/** An upload frontend of a cluster: reads the environment, starts, stops at a signal. */
import { readFileSync } from 'node:fs'
import { createLog } from '@holdfast/http-kit'
import { clusterSettings, describeSettings, readClusterConfig, runMain, settings } from '@holdfast/process'
import { pino } from 'pino'
import { startUpload } from './start.ts'

const env = process.env

await runMain(async () => {
  const { config, secrets } = readClusterConfig(env, { readSecret: (path) => readFileSync(path, 'utf8') })
  const log = createLog({ level: config.logLevel, destination: pino.destination({ dest: 2, sync: true }) })
  const described = describeSettings(env, { ...settings, ...clusterSettings })
  return startUpload({ config, secrets, settings: described, log })
})
