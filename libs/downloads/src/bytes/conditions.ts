/** Conditional requests of RFC 9110 §13, in its order of precedence. Pure. */

/** The validators of a representation. */
export interface Validators {
  /** Strong, with its quotes. */
  etag: string
  /** Unix seconds; undefined: only the ETag identifies it. */
  modifiedSeconds: number | undefined
}

/** The headers of a request that are conditions; names in lower case. */
export interface ConditionHeaders {
  'if-match'?: string | undefined
  'if-unmodified-since'?: string | undefined
  'if-none-match'?: string | undefined
  'if-modified-since'?: string | undefined
  'if-range'?: string | string[] | undefined
}

/** 412, 304, or continue. */
export function evaluate(
  headers: ConditionHeaders,
  validators: Validators,
): 'failed' | 'not modified' | 'continue' {
  const match = headers['if-match']
  if (match !== undefined) {
    if (!lists(match, validators.etag, { weak: false })) return 'failed'
  } else if (modifiedAfter(headers['if-unmodified-since'], validators)) return 'failed'

  const noneMatch = headers['if-none-match']
  if (noneMatch !== undefined) {
    return lists(noneMatch, validators.etag, { weak: true }) ? 'not modified' : 'continue'
  }
  return modifiedAfter(headers['if-modified-since'], validators) === false ? 'not modified' : 'continue'
}

/**
 * Whether a range of this representation may continue the client's part. True without `If-Range`.
 */
export function rangeHolds(headers: ConditionHeaders, validators: Validators): boolean {
  const condition = headers['if-range']
  if (condition === undefined) return true
  if (typeof condition !== 'string') return false
  if (condition.trim().startsWith('"') || condition.trim().startsWith('W/'))
    return condition.trim() === validators.etag
  return validators.modifiedSeconds !== undefined && secondsOf(condition) === validators.modifiedSeconds
}

/**
 * Undefined when the header is absent, no date, or there is nothing to compare it with: it is then
 * ignored.
 */
function modifiedAfter(header: string | undefined, { modifiedSeconds }: Validators): boolean | undefined {
  const since = header === undefined ? undefined : secondsOf(header)
  return since === undefined || modifiedSeconds === undefined ? undefined : modifiedSeconds > since
}

function lists(header: string, etag: string, { weak }: { weak: boolean }): boolean {
  return header.split(',').some((one) => {
    const tag = one.trim()
    return tag === '*' || tag === etag || (weak && tag === `W/${etag}`)
  })
}

function secondsOf(date: string): number | undefined {
  const ms = Date.parse(date)
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1000)
}
