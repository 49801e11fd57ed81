/**
 * Traces: how long each part of a request's work took, in every process that works for it. The part
 * that records them is `libs/tracing`; without one there are no spans, and no work is done for
 * them.
 *
 * A span's name goes to other processes as the header `traceparent` of W3C Trace Context.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

export interface Tracer {
  /**
   * @param options.parent of a header, or `traceparent()`; without one the span begins a trace.
   * @param options.fromClient a client sent the parent: it can decide against the trace, not for it
   * @returns undefined: this trace is not recorded
   */
  begin(
    name: string,
    options: { parent: string | undefined; fromClient?: boolean; attributes: SpanAttributes },
  ): Span | undefined
}

/** Never tokens, passwords, mail addresses, names, or what a client made up. */
export type SpanAttributes = Record<string, string | number | undefined>

export interface Span {
  /** Names it to its children, here and in other processes. */
  readonly traceparent: string
  /** Once. @param options.fault a code: the work failed */
  end(options?: { fault?: string | undefined; attributes?: SpanAttributes }): void
}

const current = new AsyncLocalStorage<string | undefined>()

/** The span that the running work belongs to; undefined outside of traces. */
export function traceparent(): string | undefined {
  return current.getStore()
}

/** @param parent undefined: the work belongs to no trace. */
export function forTrace<T>(parent: string | undefined, work: () => T): T {
  return current.run(parent, work)
}

/** @returns undefined: it is no `traceparent`. */
export function traceparentOf(sent: unknown): string | undefined {
  return typeof sent === 'string' && /^00-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/.test(sent)
    ? sent
    : undefined
}

/** Work in a span of its own, which ends with it. Work outside of traces gets none. */
export async function inSpan<T>(
  tracer: Tracer,
  {
    name,
    parent,
    attributes = {},
  }: { name: string; parent: string | undefined; attributes?: SpanAttributes },
  work: () => Promise<T>,
): Promise<T> {
  if (parent === undefined) return work()
  const span = tracer.begin(name, { parent, attributes })
  if (span === undefined) return forTrace(undefined, work)
  try {
    const result = await forTrace(span.traceparent, work)
    span.end()
    return result
  } catch (error) {
    span.end({ fault: String((error as { code?: unknown }).code ?? 'fault') })
    throw error
  }
}
