/** JSON endpoints under autocannon: many small requests over several connections. */
import autocannon from 'autocannon'
import type { LoadResult } from './load.ts'

export interface JsonRequest {
  method: 'GET' | 'POST'
  path: string
  body?: unknown
  token?: string
}

export async function cannon(
  url: URL,
  requests: readonly JsonRequest[],
  options: { connections: number; seconds: number },
): Promise<LoadResult> {
  const result = await autocannon({
    url: url.origin,
    connections: options.connections,
    duration: options.seconds,
    requests: requests.map((request) => ({
      method: request.method,
      path: request.path,
      headers: {
        ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(request.token === undefined ? {} : { authorization: `Bearer ${request.token}` }),
      },
      ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
    })),
  })
  return {
    count: result['2xx'],
    errors: result.errors + result.non2xx,
    firstError: whyOf(result),
    seconds: result.duration,
    bytes: result.throughput.total,
    p50: result.latency.p50,
    p99: result.latency.p99,
  }
}

function whyOf({ errors, non2xx, statusCodeStats }: autocannon.Result): string {
  if (errors > 0) return 'no answer'
  return non2xx > 0 ? `answers ${Object.keys(statusCodeStats ?? {}).join(', ')}` : ''
}
