import { SettingsFault } from '@holdfast/config'
import { type EndsItself, endWhenFailed } from './end-when-failed.ts'
import { ignoreStdioErrors } from './output.ts'
import { stopAtSignals } from './signals.ts'
import { exitCodes, StartFault } from './start-fault.ts'

/**
 * Starts a process and stops it at a signal, or when a part needs a restart. A failed start is
 * explained by a message and the exit code.
 */
export async function runMain(start: () => Promise<EndsItself>): Promise<void> {
  ignoreStdioErrors()
  try {
    const running = await start()
    stopAtSignals(() => running.close())
    endWhenFailed(running)
  } catch (error) {
    if (!(error instanceof SettingsFault || error instanceof StartFault)) throw error
    console.error(`Holdfast does not start: ${error.message}`)
    process.exitCode = exitCodes[error.code]
  }
}
