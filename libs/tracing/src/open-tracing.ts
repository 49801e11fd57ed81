/**
 * Spans by OpenTelemetry, sent to a collector as OTLP over HTTP.
 *
 * Its packages are loaded here, and only when the operator named a collector. Ended spans wait in a
 * queue of bounded length. While the collector takes nothing, further ones are dropped; requests
 * never wait for it.
 */
import { randomInt } from 'node:crypto'
import type { Span, SpanAttributes, Tracer } from '@holdfast/kernel'
import type { Context, Span as OtelSpan } from '@opentelemetry/api'

/** Ended spans that are not sent yet: some MB. */
const spansWaitingMax = 4_096
const spansPerRequestMax = 512
const sendEveryMs = 1_000
/** How long the end of the process waits for the collector, too. */
const sendTimeoutMs = 3_000

export interface TracingOptions {
  /** Without a collector nothing is traced. */
  config: { collector: string | undefined; oneIn: number }
  process: { name: string; role: string; region: string; version: string }
  /** Closes it; what waits is sent. */
  opened: AsyncDisposableStack
  log: { warn(fields: object, message: string): void }
}

export async function openTracing(options: TracingOptions): Promise<Tracer | undefined> {
  const { process, opened } = options
  const { collector, oneIn } = options.config
  if (collector === undefined) return undefined
  const [api, sdk, { resourceFromAttributes }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/resources'),
  ])
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes({
      'service.name': 'holdfast',
      'service.version': process.version,
      'service.instance.id': process.name,
      'holdfast.role': process.role,
      'holdfast.region': process.region,
    }),
    // `begin` decides.
    sampler: new sdk.AlwaysOnSampler(),
    spanLimits: { attributeCountLimit: 16, attributeValueLengthLimit: 128 },
    spanProcessors: [
      new sdk.BatchSpanProcessor({
        exporter: await openExporter(collector, options),
        maxQueueSize: spansWaitingMax,
        maxExportBatchSize: spansPerRequestMax,
        scheduledDelayMillis: sendEveryMs,
        exportTimeoutMillis: sendTimeoutMs,
      }),
    ],
  })
  opened.defer(async () => {
    try {
      await provider.shutdown()
    } catch (error) {
      options.log.warn({ err: error }, 'spans that waited were not sent')
    }
  })
  const tracer = provider.getTracer('holdfast')
  return {
    begin(name, { parent, fromClient = false, attributes }) {
      // The process or client that began the trace decided against it.
      if (parent !== undefined && !isRecorded(Number.parseInt(parent.slice(-2), 16))) return undefined
      // By chance, and not by the id of the trace: clients choose that. The process of another
      // parent has decided already.
      if ((parent === undefined || fromClient) && randomInt(oneIn) > 0) return undefined
      const span = tracer.startSpan(name, { attributes }, contextOf(api, parent))
      return spanOf(span, api.SpanStatusCode.ERROR)
    },
  }
}

/** The first failure of a row is logged. */
async function openExporter(collector: string, { log }: TracingOptions) {
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http')
  const exporter = new OTLPTraceExporter({
    url: `${collector}/v1/traces`,
    timeoutMillis: sendTimeoutMs,
  })
  const send = exporter.export.bind(exporter)
  let failing = false
  exporter.export = (spans, done) =>
    send(spans, (result) => {
      const failed = result.code !== 0
      if (failed && !failing) log.warn({ err: result.error }, 'the collector of traces takes no spans')
      failing = failed
      done(result)
    })
  return exporter
}

/** A parent in this process is like one in another: only its name is known. */
function contextOf(api: typeof import('@opentelemetry/api'), parent: string | undefined): Context {
  const [, traceId, spanId, flags] = parent?.split('-') ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return api.ROOT_CONTEXT
  const traceFlags = Number.parseInt(flags, 16)
  return api.trace.setSpanContext(api.ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true })
}

function isRecorded(traceFlags: number): boolean {
  return (traceFlags & 1) === 1
}

function spanOf(span: OtelSpan, failed: number): Span {
  const { traceId, spanId, traceFlags } = span.spanContext()
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    end({ fault, attributes }: { fault?: string | undefined; attributes?: SpanAttributes } = {}) {
      if (attributes !== undefined) span.setAttributes(attributes)
      if (fault !== undefined) span.setStatus({ code: failed, message: fault })
      span.end()
    },
  }
}
