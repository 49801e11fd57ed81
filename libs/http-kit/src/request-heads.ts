/**
 * What the HTTP parser lets through, and this service does not: another server on the way may read
 * it differently, and then the two disagree about where the next request begins.
 */
import type { IncomingMessage } from 'node:http'

const versions = new Set(['1.0', '1.1'])

/**
 * Whether the end of the body is where everybody sees it. A coding below `chunked` (`gzip, chunked`)
 * is not decoded here, and HTTP/1.0 has no codings. Two lengths, `chunked` twice or not last, and a
 * length beside it, are refused by the parser.
 */
export function isFramed({ httpVersion, headers }: IncomingMessage): boolean {
  if (!versions.has(httpVersion)) return false
  const coding = headers['transfer-encoding']
  return coding === undefined || (httpVersion === '1.1' && coding.toLowerCase() === 'chunked')
}
