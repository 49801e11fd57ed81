/**
 * Multipart bodies written by hand, so that order, names and headers are exactly as the case
 * requires.
 */

export interface Field {
  name: string
  value: string
}
export interface FilePart {
  name: string
  /** Put into the header between quotes unchanged; undefined: none. */
  filename?: string | undefined
  content: Uint8Array | string
  type?: string | undefined
  /** Replaces the whole Content-Disposition header. */
  disposition?: string
}
export type Part = Field | FilePart

export interface Form {
  contentType: string
  body: Buffer
}

export function multipart(parts: readonly Part[], boundary = 'b-0123456789-holdfast'): Form {
  const chunks = parts.flatMap((part) => [
    Buffer.from(`--${boundary}\r\n${headersOf(part)}\r\n\r\n`),
    Buffer.from('content' in part ? part.content : part.value),
    Buffer.from('\r\n'),
  ])
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    body: Buffer.concat([...chunks, Buffer.from(`--${boundary}--\r\n`)]),
  }
}

function headersOf(part: Part): string {
  if (!('content' in part)) return `Content-Disposition: form-data; name="${part.name}"`
  const filename = part.filename === undefined ? '' : `; filename="${part.filename}"`
  const disposition = part.disposition ?? `form-data; name="${part.name}"${filename}`
  const type = part.type === undefined ? '' : `\r\nContent-Type: ${part.type}`
  return `Content-Disposition: ${disposition}${type}`
}
