/** `npm start`: reads the environment, starts the service, stops it at a signal. */
import { readFileSync } from 'node:fs'
import { endWhenFailed, exitCodes, ignoreStdioErrors, StartFault, stopAtSignals } from '@holdfast/bootstrap'
import { describeSettings, readConfig, SettingsFault } from '@holdfast/config'
import { createLog, standardError } from '@holdfast/http-kit'
import { startStandalone } from './app.ts'
import { readyText } from './ready-text.ts'

const env = process.env
/** The longest pause between two starts on a disk that reports room but accepts no bytes. */
const restMsMax = 60_000

ignoreStdioErrors()
try {
  const { config, secrets } = readConfig(env, { readSecret: (path) => readFileSync(path, 'utf8') })
  const log = createLog({ level: config.logLevel, destination: standardError() })
  const start = (restMs: number) =>
    startStandalone({ config, secrets, log, settings: describeSettings(env), restMs })
  let service = await start(0)
  stopAtSignals(() => service.close())
  endWhenFailed({
    get endReason() {
      return service.endReason
    },
    close: () => service.close(),
  })
  console.log(readyText(service.addresses, { dataDir: config.dataDir }))
  for (let restMs = 1_000; await service.room; restMs = Math.min(restMsMax, 2 * restMs)) {
    log.info('the disk has room: the service starts again')
    await service.close()
    service = await start(restMs)
  }
} catch (error) {
  if (!(error instanceof SettingsFault || error instanceof StartFault)) throw error
  console.error(`Holdfast does not start: ${error.message}`)
  process.exitCode = exitCodes[error.code]
}
