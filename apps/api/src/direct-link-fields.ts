/** What a direct link may be restricted to, as its owner sends it. */
import { createHash, randomBytes } from 'node:crypto'
import { normalDomain, parseRange } from '@holdfast/access'
import { refined, timeMax } from '@holdfast/http-kit'
import type { BasicAuth, DirectLink } from '@holdfast/wire'
import { type Static, Type } from '@sinclair/typebox'

/** Entries of each list. */
const entriesMax = 100

const list = (description: string, isEntry: (entry: string) => boolean) =>
  Type.Optional(
    refined(
      Type.Array(Type.String({ maxLength: 512 }), { maxItems: entriesMax, description }),
      (entries: string[]) => {
        const trimmed = entries.map((entry) => entry.trim())
        return trimmed.every(isEntry) ? [...new Set(trimmed)] : undefined
      },
    ),
  )

export const directLinkBody = Type.Object({
  expireTime: Type.Optional(
    refined(Type.Integer({ description: 'Unix seconds; omitted or 0: none' }), (time: number) =>
      time >= 0 && time <= timeMax ? time : undefined,
    ),
  ),
  sourceIpsAllowed: list('Addresses or CIDR ranges', (entry) => parseRange(entry) !== undefined),
  domainsAllowed: list('Domains, with their subdomains; best effort', isDomain),
  domainsBlocked: list('Domains, with their subdomains; best effort', isDomain),
  auth: Type.Optional(
    refined(
      Type.Array(Type.String({ maxLength: 512 }), {
        maxItems: entriesMax,
        description: '`<username>:<password>` for basic authentication',
      }),
      (entries: string[]) => (entries.every(isCredential) ? entries : undefined),
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
    auth: (input.auth ?? []).map(basicAuthOf),
  }
}

function isDomain(text: string): boolean {
  const domain = normalDomain(text)
  return domain !== undefined && domain.length <= 253 && /^(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])$/.test(domain)
}

/** RFC 7617: a user name has no colon, neither part control characters. */
function isCredential(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is refused
  return /^[^:\u0000-\u001f\u007f]+:[^\u0000-\u001f\u007f]+$/.test(text) && text.isWellFormed()
}

function basicAuthOf(text: string): BasicAuth {
  const colon = text.indexOf(':')
  const salt = randomBytes(16)
  const hash = createHash('sha256')
    .update(salt)
    .update(text.slice(colon + 1))
    .digest()
  return { user: text.slice(0, colon), salt, hash }
}
