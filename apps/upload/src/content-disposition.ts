/** The `Content-Disposition` of a form's part. Pure. */

export interface Disposition {
  /** Undefined: no field of a form; to be ignored. */
  name: string | undefined
  /** Undefined: a plain field. With a path, if one was sent. */
  fileName: string | undefined
}

/**
 * Quoted values as browsers (RFC 7578: no escapes but percent, which stay), curl and Go (backslash before `"` and `\`) and old Windows
 * browsers (whole paths) send them; `filename*` of RFC 8187 counts before `filename`.
 */
export function parseDisposition(header: string | undefined): Disposition {
  const [, kind, rest] = /^([^\s;]+)[ \t]*(.*)$/s.exec(header ?? '') ?? []
  if (kind?.toLowerCase() !== 'form-data') return { name: undefined, fileName: undefined }
  const parameters = parametersOf(rest ?? '')
  const extended = parameters.get('filename*')
  const decoded = extended === undefined ? undefined : decodeExtended(extended)
  return { name: parameters.get('name'), fileName: decoded ?? parameters.get('filename') }
}

/** Of a name that comes twice the first counts. */
function parametersOf(text: string): Map<string, string> {
  const parameters = new Map<string, string>()
  const form = /;[ \t]*([^\s=;"]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.|\\$)*)"|([^;"]*))/gsy
  for (let found = form.exec(text); found !== null; found = form.exec(text)) {
    const [, name = '', quoted, plain = ''] = found
    const key = name.toLowerCase()
    const value = quoted === undefined ? plain.trim() : quoted.replace(/\\(["\\])/g, '$1')
    if (!parameters.has(key)) parameters.set(key, value)
    while (text[form.lastIndex] === ' ' || text[form.lastIndex] === '\t') form.lastIndex++
  }
  return parameters
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
