/**
 * The ports with spans around their calls. Without a tracer they are returned as they are.
 */
import type { AccountClient } from '@holdfast/accounts'
import type { BlobStage, BlobStore } from '@holdfast/blob-store'
import type { JournalStore, LookupStore } from '@holdfast/journal'
import { inSpan, type SpanAttributes, type Tracer, traceparent } from '@holdfast/kernel'

/** Sends the span to the account's host, as part of the request. */
export function tracedAccounts(accounts: AccountClient, tracer: Tracer | undefined): AccountClient {
  if (tracer === undefined) return accounts
  return {
    call: (request, options) => {
      const { accountId, operation } = request
      const attributes = { 'holdfast.account': accountId }
      return inSpan(tracer, { name: `ask ${operation?.$case}`, parent: traceparent(), attributes }, () =>
        accounts.call({ ...request, traceparent: traceparent() }, options),
      )
    },
  }
}

export function tracedJournals<S extends JournalStore>(
  journals: S,
  tracer: Tracer | undefined,
  system: string,
): S {
  if (tracer === undefined) return journals
  const calls = ['acquire', 'append', 'head', 'page', 'putPage', 'setRoot', 'release'] as const
  return withSpans(journals, { calls, what: 'journal', tracer, attributes: { 'db.system.name': system } })
}

export function tracedLookups<S extends LookupStore>(
  lookups: S,
  tracer: Tracer | undefined,
  system: string,
): S {
  if (tracer === undefined) return lookups
  const calls = ['write', 'get', 'firstOf', 'claim', 'take'] as const
  return withSpans(lookups, { calls, what: 'lookups', tracer, attributes: { 'db.system.name': system } })
}

/** Reads that yield bytes piece by piece have no span of their own. */
export function tracedBlobs<S extends BlobStore>(blobs: S, tracer: Tracer | undefined): S {
  if (tracer === undefined) return blobs
  const calls = ['stat', 'pin', 'delete', 'readWhole', 'openSender'] as const
  const traced = withSpans(blobs, { calls, what: 'blobs', tracer })
  const stage: BlobStore['stage'] = async (options) => {
    const parent = traceparent()
    const opened = await inSpan(tracer, { name: 'blobs stage', parent }, () => blobs.stage(options))
    return withSpans<BlobStage>(opened, { calls: ['commit', 'abort'], what: 'blobs', tracer })
  }
  return new Proxy(traced, { get: (target, key) => (key === 'stage' ? stage : Reflect.get(target, key)) })
}

/** Private members need their own object: methods are called on it. */
function withSpans<S extends object>(
  port: S,
  {
    calls,
    what,
    tracer,
    attributes = {},
  }: { calls: readonly string[]; what: string; tracer: Tracer; attributes?: SpanAttributes },
): S {
  const methods = new Map<PropertyKey, unknown>()
  const methodOf = (key: PropertyKey, method: (...words: unknown[]) => unknown) => {
    const own = method.bind(port)
    if (typeof key === 'symbol' || !calls.includes(String(key))) return own
    const name = `${what} ${String(key)}`
    return (...words: unknown[]) => {
      const parent = traceparent()
      return parent === undefined
        ? own(...words)
        : inSpan(tracer, { name, parent, attributes }, async () => own(...words))
    }
  }
  return new Proxy(port, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key)
      if (typeof value !== 'function') return value
      const known = methods.get(key)
      if (known !== undefined) return known
      const method = methodOf(key, value as (...words: unknown[]) => unknown)
      methods.set(key, method)
      return method
    },
  })
}
