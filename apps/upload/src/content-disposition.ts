/** The `Content-Disposition` of a form's part. Pure. */

export interface Disposition {
  /** Undefined: not a form field; ignored. */
  name: string | undefined
  /** Undefined: a plain field. With a path, if one was sent. */
  fileName: string | undefined
}

/**
 * Quoted values as browsers (RFC 7578: no escapes but percent), curl and Go (backslash before `"`
 * and `\`) and old Windows browsers (whole paths) send them; `filename*` of RFC 8187 wins over
 * `filename`.
 */
export function parseDisposition(header: string | undefined): Disposition {
  const nothing = { name: undefined, fileName: undefined }
  if (header === undefined) return nothing
  const end = header.indexOf(';')
  if (trimSpace(header, 0, end < 0 ? header.length : end).toLowerCase() !== 'form-data') return nothing
  const parameters = end < 0 ? new Map<string, string>() : parametersOf(header, end)
  const extended = parameters.get('filename*')
  const decoded = extended === undefined ? undefined : decodeExtended(extended)
  const plain = parameters.get('filename')
  return {
    name: parameters.get('name'),
    fileName: decoded ?? (plain === undefined ? undefined : decodedFileName(plain)),
  }
}

/**
 * How browsers and curl encode a quote and line ends in a form's file name. Every other percent
 * sign is part of the name.
 */
export function decodedFileName(sent: string): string {
  if (!sent.includes('%')) return sent
  return sent.replace(/%(?:22|0d|0a)/gi, (encoded) =>
    String.fromCharCode(Number.parseInt(encoded.slice(1), 16)),
  )
}

/**
 * `; name=value; name="quoted value"`, from `at` on up to the first syntax error. The first of two
 * equal names wins. Every character is examined a fixed number of times.
 */
function parametersOf(text: string, at: number): Map<string, string> {
  const parameters = new Map<string, string>()
  for (let from = at; text[from] === ';'; ) {
    const equals = text.indexOf('=', from)
    if (equals < 0) break
    const name = trimSpace(text, from + 1, equals)
    if (name === '' || /[\s;"]/.test(name)) break
    const start = afterBlanks(text, equals + 1)
    const quoted = text[start] === '"'
    // Without its closing quote the value is empty, and the rest is ignored.
    const end = quoted ? (closingQuote(text, start) ?? start) : plainEnd(text, start)
    const key = name.toLowerCase()
    if (!parameters.has(key)) {
      const value = text.slice(quoted ? start + 1 : start, end)
      parameters.set(key, quoted ? value.replace(/\\(["\\])/g, '$1') : value.trim())
    }
    if (quoted && end === start) break
    from = afterBlanks(text, quoted ? end + 1 : end)
  }
  return parameters
}

/** Without the blanks around it. */
export function trimSpace(text: string, start: number, end: number = text.length): string {
  const from = Math.min(afterBlanks(text, start), end)
  let to = end
  while (to > from && isBlank(text, to - 1)) to--
  return text.slice(from, to)
}

export function afterBlanks(text: string, at: number): number {
  let end = at
  while (isBlank(text, end)) end++
  return end
}

function isBlank(text: string, at: number): boolean {
  const code = text.charCodeAt(at)
  return code === 0x20 || code === 0x09
}

/**
 * Index of the quote that ends the value begun at `start`. A backslash takes the next character
 * with it.
 */
export function closingQuote(text: string, start: number): number | undefined {
  for (let at = start + 1; at < text.length; at++) {
    const character = text[at]
    if (character === '"') return at
    if (character === '\\') at++
  }
  return undefined
}

/** Index of what ends a value without quotes. */
function plainEnd(text: string, start: number): number {
  let end = start
  while (end < text.length && text[end] !== ';' && text[end] !== '"') end++
  return end
}

/** `UTF-8'en'%e2%82%ac` of RFC 8187; undefined when it is broken or in another character set. */
function decodeExtended(value: string): string | undefined {
  const [, charset, encoded] = /^([A-Za-z0-9-]+)'[^']*'(.*)$/s.exec(value) ?? []
  if (charset === undefined || encoded === undefined) return undefined
  const bytes = Buffer.from(
    encoded.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  )
  if (/^(?:iso-8859-1|us-ascii)$/i.test(charset)) return bytes.toString('latin1')
  return /^utf-?8$/i.test(charset) ? bytes.toString('utf8') : undefined
}
