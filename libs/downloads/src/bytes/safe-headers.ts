/**
 * Headers for bytes and names of unknown uploaders.
 *
 * Nothing sent from here may run. Types are used as stored and never sniffed. Only types that a
 * browser shows without a document are shown inline. A policy denies scripts, the origin and all
 * requests to anything that is opened nevertheless.
 */

import { mediaType } from '@holdfast/kernel'
import { withoutDirections } from '../archives/zip/names.ts'

/**
 * Shown inline on request; other types are sent as a file. HTML, SVG and XML must never be in this
 * list.
 */
const inlineTypes = new Set([
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'image/avif',
  'image/bmp',
  'image/apng',
  'image/vnd.microsoft.icon',
  'image/x-icon',
  'audio/mpeg',
  'audio/mp4',
  'audio/aac',
  'audio/ogg',
  'audio/opus',
  'audio/wav',
  'audio/x-wav',
  'audio/wave',
  'audio/webm',
  'audio/flac',
  'audio/x-flac',
  'video/mp4',
  'video/webm',
  'video/ogg',
  'video/quicktime',
  'video/x-matroska',
  'application/pdf',
  'text/plain',
])

// Media documents fetch themselves and contain a style of the browser.
const policy = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'"

/**
 * Headers of a file with any name and stored type.
 *
 * @param inPlace harmless types are shown; else all are sent as files, and sandboxed
 */
export function fileHeaders(
  name: string,
  mimetype: string,
  { inPlace }: { inPlace: boolean },
): Record<string, string> {
  const type = safeType(mimetype)
  const inline = inPlace && inlineTypes.has(type)
  return {
    'content-type': type === 'text/plain' ? 'text/plain; charset=utf-8' : type,
    'content-disposition': contentDisposition(name, { inline }),
    'content-security-policy': policyOf(type, { inline }),
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'cross-origin',
    'referrer-policy': 'no-referrer',
  }
}

/**
 * The browsers' PDF viewers do not start in a sandbox and run no script of the document in the
 * page's origin; all else is sandboxed.
 */
function policyOf(type: string, { inline }: { inline: boolean }): string {
  return inline && type === 'application/pdf' ? `${policy}; object-src 'self'` : `${policy}; sandbox`
}

/** The stored type when it is well-formed, without parameters; else a plain file. */
function safeType(mimetype: string): string {
  return mediaType(mimetype) ?? 'application/octet-stream'
}

/** RFC 6266 with the encoding of RFC 8187; old clients get an ASCII approximation of the name. */
function contentDisposition(name: string, { inline }: { inline: boolean }): string {
  const shown = withoutDirections(name.toWellFormed())
  const ascii = shown.replace(/[^\x20-\x7e]/g, '_').replace(/["\\%/]/g, '_')
  const kind = inline ? 'inline' : 'attachment'
  const plain = `${kind}; filename="${ascii}"`
  if (ascii === shown) return plain
  const encoded = encodeURIComponent(shown).replace(
    /['()*!]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `${plain}; filename*=UTF-8''${encoded}`
}
