/** A collector of traces that keeps what it gets: OTLP over HTTP, as JSON. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface ReceivedSpan {
  /** `service.instance.id` */
  process: string
  name: string
  traceId: string
  spanId: string
  /** Empty at the root. */
  parentSpanId: string
  attributes: Record<string, string | number>
}

interface SpanAttribute {
  key: string
  value: { stringValue?: string; intValue?: number; doubleValue?: number }
}

interface Export {
  resourceSpans: {
    resource: { attributes: SpanAttribute[] }
    scopeSpans: {
      spans: (Omit<ReceivedSpan, 'process' | 'attributes'> & { attributes: SpanAttribute[] })[]
    }[]
  }[]
}

export async function otlpReceiver(t: { teardown(undo: () => unknown): void }) {
  const received = { texts: [] as string[], spans: [] as ReceivedSpan[] }
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await text(request)
    received.texts.push(body)
    if (request.url === '/v1/traces') received.spans.push(...spansOf(JSON.parse(body) as Export))
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  }
  const server = createServer((request, response) => void take(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return {
    ...received,
    url: `http://127.0.0.1:${port}`,
    /** The spans of one trace, each as `process: parent > name`; the root as `process: > name`. */
    arrows(traceId: string): string[] {
      const spans = received.spans.filter((span) => span.traceId === traceId)
      const spanName = (id: string) => spans.find(({ spanId }) => spanId === id)?.name ?? ''
      return spans.map(({ process, name, parentSpanId }) => `${process}: ${spanName(parentSpanId)} > ${name}`)
    },
  }
}

function spansOf({ resourceSpans }: Export): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ attributes, parentSpanId = '', ...span }) => ({
        ...span,
        parentSpanId,
        process: String(valuesOf(resource.attributes)['service.instance.id']),
        attributes: valuesOf(attributes),
      })),
    ),
  )
}

function valuesOf(attributes: SpanAttribute[]): Record<string, string | number> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue ?? value.doubleValue ?? '']),
  )
}
