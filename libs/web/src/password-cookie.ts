/**
 * A password typed on a page stays for that browser's session, so that paging and folders below
 * need it once. The cookie holds its SHA-256, which is what readers of the API send. Scripts cannot
 * read it, and only the pages under /d receive it.
 */
import { passwordDigest } from '@holdfast/kernel'
import type { FastifyRequest } from 'fastify'

const name = 'folderPassword'

export function passwordOf(request: FastifyRequest): string | undefined {
  const [, value] =
    new RegExp(`(?:^|;\\s*)${name}=([0-9a-f]{64})(?:;|$)`).exec(request.headers.cookie ?? '') ?? []
  return value
}

/** @param typed the plaintext, or its SHA-256 hex. */
export function passwordCookie(typed: string, { secure }: { secure: boolean }): string {
  return `${name}=${passwordDigest(typed)}; Path=/d; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`
}
