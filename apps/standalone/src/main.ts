/** `npm start`: reads the environment, starts the service, stops it at a signal. */
import { readFileSync } from 'node:fs'
import { exitCodes, ignoreStdioErrors, StartFault, stopAtSignals } from '@holdfast/bootstrap'
import { describeSettings, readConfig, SettingsFault } from '@holdfast/config'
import { createLog, standardError } from '@holdfast/http-kit'
import { startStandalone } from './app.ts'
import { readyText } from './ready-text.ts'

const env = process.env

ignoreStdioErrors()
try {
  const { config, secrets } = readConfig(env, { readSecret: (path) => readFileSync(path, 'utf8') })
  const log = createLog({ level: config.logLevel, destination: standardError() })
  const service = await startStandalone({ config, secrets, log, settings: describeSettings(env) })
  stopAtSignals(() => service.close())
  console.log(readyText(service.addresses, { dataDir: config.dataDir }))
} catch (error) {
  if (!(error instanceof SettingsFault || error instanceof StartFault)) throw error
  console.error(`Holdfast does not start: ${error.message}`)
  process.exitCode = exitCodes[error.code]
}
