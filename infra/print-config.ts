/**
 * `npm run config`: every setting with its active value, its default and its meaning. Exits 78 when
 * one is wrong. With `-- --cluster` those of a process of a cluster.
 */
import { readFileSync } from 'node:fs'
import {
  clusterSettings,
  describeSettings,
  readClusterConfig,
  readConfig,
  SettingsFault,
  settings,
} from '@holdfast/config'
import { commandLine, headOf } from './command-line.ts'

const env = process.env
const { values: options } = commandLine('config', headOf(import.meta.filename), {
  cluster: { type: 'boolean', default: false },
})
const shown = options.cluster ? { ...settings, ...clusterSettings } : settings
const read = options.cluster ? readClusterConfig : readConfig

for (const { name, value, fallback, meaning } of describeSettings(env, shown)) {
  const origin = value === fallback ? 'default' : `default: ${fallback || 'none'}`
  console.log(`${name}=${value}\n    ${meaning} (${origin})`)
}

try {
  read(env, { readSecret: (path) => readFileSync(path, 'utf8') })
} catch (error) {
  if (!(error instanceof SettingsFault)) throw error
  console.error(`\n${error.message}`)
  process.exitCode = 78
}
