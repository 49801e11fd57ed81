/** The restrictions of a direct link, as its owner sends them. */
import { createHash, randomBytes } from 'node:crypto'
import { isRange, normalDomain } from '@holdfast/access'
import { withParser } from '@holdfast/http-kit'
import { codePoints, timeMax } from '@holdfast/kernel'
import type { BasicAuth, DirectLink } from '@holdfast/wire'
import { type Static, Type } from '@sinclair/typebox'
import { futureTime } from '../documents/schemas.ts'

/** Entries of each list. */
const entriesMax = 100

const list = (description: string, isEntry: (entry: string) => boolean, entry: object) =>
  Type.Optional(
    withParser(
      Type.Array(Type.String({ maxLength: 512 }), { maxItems: entriesMax, description }),
      (entries: string[]) => {
        const trimmed = entries.map((entry) => entry.trim())
        return trimmed.every(isEntry) ? [...new Set(trimmed)] : undefined
      },
      { items: { type: 'string', ...entry } },
    ),
  )

const byteForm = '(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])'
/**
 * For IPv6 the document shows the whole form and those with `::`; an IPv4 tail is accepted as well.
 */
const groupForm = '[0-9A-Fa-f]{1,4}'
/**
 * For each n the form with n groups before `::` and 1 to 7 - n groups after it, so that at least
 * one group is omitted.
 */
const shortened = [1, 2, 3, 4, 5, 6].map((n) => `(${groupForm}:){${n}}(:${groupForm}){1,${7 - n}}`)
const v6Form = `((${groupForm}:){7}${groupForm}|::(${groupForm}:){0,5}${groupForm}|(${groupForm}:){1,6}:|::|${shortened.join('|')})`
const addressForm = `^((${byteForm}\\.){3}${byteForm}(/(3[0-2]|[12]?[0-9]))?|${v6Form}(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?)$`
/** Pasted forms with scheme, port and path are accepted, too. */
const domainForm = '^(\\*\\.)?([a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?\\.){1,5}[a-z]{2,24}$'
/** Characters of an entry of `auth`. */
const credentialLengthMax = 512
const credentialForm = '^[^:\\u0000-\\u001f\\u007f]+:[^\\u0000-\\u001f\\u007f]+$'
const credentials = new RegExp(credentialForm)

export const directLinkBody = Type.Object({
  expireTime: Type.Optional(
    withParser(
      Type.Integer({ description: 'Unix seconds, in the future; omitted or 0: none' }),
      (time: number) => (time >= 0 && time <= timeMax ? time : undefined),
      { minimum: 0, maximum: timeMax, examples: [futureTime] },
    ),
  ),
  sourceIpsAllowed: list('Addresses or CIDR ranges', isRange, {
    pattern: addressForm,
  }),
  domainsAllowed: list('Domains, with their subdomains; best effort', isDomain, {
    pattern: domainForm,
    maxLength: 253,
  }),
  domainsBlocked: list('Domains, with their subdomains; best effort', isDomain, {
    pattern: domainForm,
    maxLength: 253,
  }),
  auth: Type.Optional(
    withParser(
      // TypeBox counts UTF-16 units: up to two per character.
      Type.Array(Type.String({ maxLength: 2 * credentialLengthMax }), {
        maxItems: entriesMax,
        description: '`<username>:<password>` for basic authentication',
      }),
      (entries: string[]) => (entries.every(isCredential) ? entries : undefined),
      { items: { type: 'string', pattern: credentialForm, maxLength: credentialLengthMax } },
    ),
  ),
})

export function directLinkOf(input: Static<typeof directLinkBody>): DirectLink {
  return {
    id: '',
    createTime: 0,
    expireTime: input.expireTime ?? 0,
    sourceIpsAllowed: input.sourceIpsAllowed ?? [],
    domainsAllowed: input.domainsAllowed ?? [],
    domainsBlocked: input.domainsBlocked ?? [],
    auth: basicAuthsOf(input.auth ?? []),
  }
}

function isDomain(text: string): boolean {
  const domain = normalDomain(text)
  return domain !== undefined && /^(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])$/.test(domain)
}

/** RFC 7617: a user name has no colon, neither part has control characters. */
function isCredential(text: string): boolean {
  if (!credentials.test(text)) return false
  return text.isWellFormed() && codePoints(text) <= credentialLengthMax
}

function basicAuthsOf(texts: readonly string[]): BasicAuth[] {
  // One draw for all salts: a hundred draws took a tenth of the request's time.
  const salts = randomBytes(texts.length * saltBytes)
  return texts.map((text, at) => basicAuthOf(text, salts.subarray(at * saltBytes, (at + 1) * saltBytes)))
}

const saltBytes = 16

function basicAuthOf(text: string, salt: Buffer): BasicAuth {
  const colon = text.indexOf(':')
  const hash = createHash('sha256')
    .update(salt)
    .update(text.slice(colon + 1))
    .digest()
  return { user: text.slice(0, colon), salt, hash }
}
