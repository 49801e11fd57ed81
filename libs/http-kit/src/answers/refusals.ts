import { busyRetrySeconds, RefusalError } from '@holdfast/kernel'

/**
 * The contract's statuses: HTTP code and meaning, in one table. `apps/api/STATUSES.md` follows
 * from it. A status that is not in it names a parameter: 400.
 */
export const statuses = {
  'error-body': {
    code: 400,
    meaning:
      'The body cannot be read: it is not a JSON, form or multipart body, or has too many values or levels.',
  },
  'error-host': { code: 400, meaning: 'The Host header is missing, invalid, or sent twice.' },
  'error-idempotencyKey': {
    code: 400,
    meaning: 'The Idempotency-Key is malformed, or was used for another request.',
  },
  'error-request': {
    code: 400,
    meaning:
      'The request is not HTTP/1.1 or 1.0, its target is neither a path nor a URL, or its Transfer-Encoding is not `chunked`; the connection closes.',
  },
  'error-token': {
    code: 401,
    meaning: 'There is no token, or it was refused; two different tokens also count as refused.',
  },
  'error-notPremium': { code: 401, meaning: 'The operation is for premium accounts.' },
  'error-owner': { code: 401, meaning: 'The content of a DELETE belongs to another account.' },
  'error-notOwner': { code: 401, meaning: 'The content belongs to another account, or is private.' },
  'error-passwordRequired': { code: 401, meaning: 'The folder has a password, and none was sent.' },
  'error-passwordWrong': { code: 401, meaning: 'The folder has a password, and another one was sent.' },
  'error-accountId': { code: 403, meaning: "The account id is not that of the token's account." },
  'error-limits': {
    code: 403,
    meaning:
      'A cap of the account (contents, storage, metadata), the depth of the tree or the number of direct links is reached.',
  },
  'error-rootFolder': { code: 403, meaning: 'The root folder does not allow this.' },
  'error-protectedFolder': { code: 403, meaning: 'The root folder or the recycle bin does not allow this.' },
  'error-forbidden': {
    code: 403,
    meaning:
      'The caller may not do this: a restriction of a direct link, of the operator, or of the admin host.',
  },
  'error-notFound': {
    code: 404,
    meaning: 'The content is unknown, expired or recycled, or there is no such route.',
  },
  'error-method': { code: 405, meaning: 'The path does not have this method; `Allow` names its methods.' },
  'error-timeout': { code: 408, meaning: 'The request did not arrive in time.' },
  'error-alreadyDone': {
    code: 409,
    meaning: 'The change with this Idempotency-Key was carried out, and its answer is no longer kept.',
  },
  'error-precondition': { code: 412, meaning: 'The condition of If-Match or If-Unmodified-Since is false.' },
  'error-bodySize': { code: 413, meaning: 'The body is too large: JSON has at most 256 KiB.' },
  'error-fileSize': { code: 413, meaning: 'The file is larger than the operator allows; nothing is kept.' },
  'error-range': { code: 416, meaning: 'No byte of the range exists; `Content-Range` has the length.' },
  'error-expect': { code: 417, meaning: 'The request expects something other than 100-continue.' },
  'error-rateLimit': {
    code: 429,
    meaning: 'A rate limit or a ban applies, or all places are taken; `Retry-After` says when to try again.',
  },
  'error-headerSize': {
    code: 431,
    meaning: 'The head of the request, or of the parts of a form, is too large.',
  },
  'error-blocked': {
    code: 451,
    meaning: 'The operator took the content down, or suspended its account: it is neither sent nor stored.',
  },
  'error-internal': { code: 500, meaning: 'A fault of the service.' },
  'error-unavailable': {
    code: 503,
    meaning: 'A part of the service is out of reach; `Retry-After` says when to try again.',
  },
  'error-storageFull': { code: 507, meaning: 'There is no room for new bytes.' },
} as const satisfies Record<`error-${string}`, { code: number; meaning: string }>

/** A status of the table. */
export type KnownStatus = keyof typeof statuses

export function httpCodeOf(status: string): number {
  return Object.hasOwn(statuses, status) ? statuses[status as KnownStatus].code : 400
}

/** Seconds after which an unavailable part may be back. */
export const unavailableRetrySeconds = 2

/**
 * How a client sees an exception. Refusals stay; faults map by their category, fastify's errors by
 * their code; all else is `error-internal`.
 */
export function refusalOf(error: unknown): RefusalError {
  if (error instanceof RefusalError) return error
  const { code, category, overloaded } = (error ?? {}) as Record<string, unknown>
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new RefusalError('error-bodySize')
  if (typeof code === 'string' && (code.startsWith('FST_ERR_CTP_') || code === 'ECONNRESET')) {
    return new RefusalError('error-body')
  }
  if (overloaded === true) return new RefusalError('error-rateLimit', { retryAfter: busyRetrySeconds })
  if (category === 'full') return new RefusalError('error-storageFull', { retryAfter: 60 })
  if (category === 'unavailable' || category === 'unknown' || category === 'fenced') {
    return new RefusalError('error-unavailable', { retryAfter: unavailableRetrySeconds })
  }
  return new RefusalError('error-internal')
}
