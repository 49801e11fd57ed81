/** The log of a process. Secrets of a request never reach it. */
import { type DestinationStream, type Logger, pino } from 'pino'

/** Fields of these names in a line are removed with every value. */
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
      hooks: { streamWrite: withoutSecrets },
    },
    options.destination ?? pino.destination(1),
  )
}

/** A token, wherever a client or a fault puts it; a digest in hex is none. */
const tokens = /(?<![\w-])(?![\da-f]{64})[\w-]{64}(?![\w-])/g
/** Matches an address without the characters around it in lines, URLs and headers. */
const part = String.raw`[^\s"'<>()[\],;:\\/@=?&]`
/**
 * An e-mail address, plain or in a URL; a package with a scope or a version does not match. The
 * search starts only where a run of such characters begins, so that long lines do not take long.
 */
const addresses = new RegExp(`(?<!${part})${part}+(?:@|%40)${part}{1,253}\\.\\p{L}${part}+`, 'gu')

/**
 * Clients and mail relays determine paths, client ids, replies of the relay and messages of faults.
 */
function withoutSecrets(line: string): string {
  return line.replace(tokens, '[secret]').replace(addresses, '[address]')
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
