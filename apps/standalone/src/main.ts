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
  const start = () => startStandalone({ config, secrets, log, settings: describeSettings(env) })
  let service = await start()
  stopAtSignals(() => service.close())
  console.log(readyText(service.addresses, { dataDir: config.dataDir }))
  while (await service.room) {
    log.info('the disk has room: the service starts again')
    await service.close()
    service = await start()
  }
} catch (error) {
  if (!(error instanceof SettingsFault || error instanceof StartFault)) throw error
  console.error(`Holdfast does not start: ${error.message}`)
  process.exitCode = exitCodes[error.code]
}
