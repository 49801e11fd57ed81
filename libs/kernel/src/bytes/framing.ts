/** Where the body of an HTTP request ends. Another server on the way may read it differently. */
import type { IncomingMessage } from 'node:http'

const versions = new Set(['1.0', '1.1'])

/**
 * Whether the end of the body is clear. A second coding (`gzip, chunked`) is not decoded here, and
 * HTTP/1.0 has no codings. The parser itself refuses two lengths, `chunked` twice or not last, and
 * `chunked` with a length.
 */
export function isFramed({
  httpVersion,
  headers,
}: Pick<IncomingMessage, 'httpVersion' | 'headers'>): boolean {
  if (!versions.has(httpVersion)) return false
  const coding = headers['transfer-encoding']
  return coding === undefined || (httpVersion === '1.1' && coding.toLowerCase() === 'chunked')
}
