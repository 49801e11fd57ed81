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

/**
 * A character that a client encoded for a URL, up to four times: `%2522` is `"` twice. The limit
 * keeps the search of a long `%252525…` short.
 */
const encoded = '%(?:25){0,3}'
/**
 * A token, wherever a client or a fault puts it; a digest in hex is none. Its first character may
 * follow an encoded one, or the letter of an escape in text that a fault quotes.
 */
const tokens = new RegExp(
  String.raw`(?:(?<![\w-])|(?<=${encoded}[\da-fA-F]{2}|\\[bfnrt]))(?![\da-f]{64})[\w-]{64}(?![\w-])`,
  'g',
)
/** Matches an address without the characters around it in lines, URLs and headers. */
const part = String.raw`[^\s"'<>()[\],;:\\/@=?&]`
/**
 * An e-mail address, plain or in a URL; a package with a scope or a version does not match. The
 * search starts only where a run of such characters begins, so that long lines do not take long.
 */
const addresses = new RegExp(
  String.raw`(?<!${part})${part}+(?:@|${encoded}40)${part}{1,253}\.[\p{L}%]${part}+`,
  'gu',
)
/** A string of JSON. */
const strings = /"[^"\\]*(?:\\.[^"\\]*)*"/g

/**
 * Clients and mail relays determine paths, client ids, replies of the relay and messages of faults.
 * Strings are searched as they were before JSON: an `n` after a line break is part of its escape
 * there, and of no token and no address.
 *
 * @param line JSON
 */
function withoutSecrets(line: string): string {
  return line.replace(strings, (json) => {
    const text = JSON.parse(json) as string
    const shown = text.replace(tokens, '[secret]').replace(addresses, '[address]')
    return shown === text ? json : JSON.stringify(shown)
  })
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
