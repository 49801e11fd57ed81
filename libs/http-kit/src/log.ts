/** The log of a process. Secrets of a request never reach it. */
import { type DestinationStream, type Logger, pino } from 'pino'

const secretNames = ['token', 'guestToken', 'authorization', 'Authorization', 'password', 'auth', 'cookie']

/** @param options.level a pino level. @param options.destination default: standard output. */
export function createLog(options: { level: string; destination?: DestinationStream }): Logger {
  return pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: {
        paths: secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]),
        censor: '[secret]',
      },
    },
    options.destination ?? pino.destination(1),
  )
}

/**
 * Standard error, line by line. It may be a file on the very disk that is full: then lines are lost
 * (the last MiB is kept and written later), and nothing else.
 */
export function standardError(): DestinationStream {
  const destination = pino.destination({ dest: 2, sync: true, maxLength: 1024 * 1024 })
  destination.on('error', () => {})
  const flush = destination.flushSync.bind(destination)
  // Checked at the end of the process, where a failed log would otherwise set the exit code.
  destination.flushSync = () => {
    try {
      flush()
    } catch {}
  }
  return destination
}

/** Path of a URL without its query, which may carry a token. */
export function pathOf(url: string): string {
  const end = url.search(/[?#;]/)
  return end < 0 ? url : url.slice(0, end)
}
