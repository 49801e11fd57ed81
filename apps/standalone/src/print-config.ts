/** `npm run config`: every setting with the value in force, its default and its meaning. Exits 78 when one is wrong. */
import { readFileSync } from 'node:fs'
import { describeSettings, readConfig, SettingsFault } from '@holdfast/process'

const env = process.env

for (const { name, value, fallback, meaning } of describeSettings(env)) {
  const origin = value === fallback ? 'default' : `default: ${fallback || 'none'}`
  console.log(`${name}=${value}\n    ${meaning} (${origin})`)
}

try {
  readConfig(env, { readSecret: (path) => readFileSync(path, 'utf8') })
} catch (error) {
  if (!(error instanceof SettingsFault)) throw error
  console.error(`\n${error.message}`)
  process.exitCode = 78
}
