/** Every answer that the suite gets, for the comparison at its end. */
import type { HttpAnswer } from './http.ts'

/** As far as the document distinguishes answers. */
export interface SeenAnswer {
  method: string
  url: URL
  code: number
  /** The status of the envelope; undefined without one, as after HEAD. */
  status: string | undefined
}

/** By origin, each kind once. */
const answers = new Map<string, Map<string, SeenAnswer>>()

export function note(
  method: string,
  url: string,
  { code, headers, body }: Omit<HttpAnswer, 'rawHeaders'>,
): void {
  const isJson = headers['content-type']?.startsWith('application/json') === true
  const answered = { method, url: new URL(url), code, status: isJson ? statusOf(body) : undefined }
  const { origin, pathname, protocol } = answered.url
  // A proxy answers by itself what it cannot read. Cases judge the answer.
  if (protocol === 'https:' && code >= 400 && answered.status === undefined) return
  const ofOrigin = answers.get(origin) ?? new Map<string, SeenAnswer>()
  answers.set(origin, ofOrigin)
  ofOrigin.set(`${method} ${pathname} ${code} ${answered.status}`, answered)
}

/** What a bare socket received: the first request and the first whole answer to it. */
export function noteRaw(url: string, sent: string, received: string): void {
  const [, method, path] = /^([A-Z]+) (\/\S*) HTTP\/1\.[01]\r\n/.exec(sent) ?? []
  const [, code, head = '', body = ''] =
    /HTTP\/1\.1 (?!100)(\d{3})[^\r]*\r\n((?:[^\r]+\r\n)*)\r\n(.*)/s.exec(received) ?? []
  if (method === undefined || path === undefined || code === undefined) return
  const [, type = ''] = /^content-type: *(.*?)\r$/im.exec(head) ?? []
  const target = new URL(path, url).href
  note(method, target, { code: Number(code), headers: { 'content-type': type }, body: Buffer.from(body) })
}

function statusOf(body: Buffer): string | undefined {
  const [, status] = /^(?:[0-9a-f]+\r\n)?\{"status":"([^"]*)"/.exec(body.toString('latin1')) ?? []
  return status
}

export function answersOf(url: string): SeenAnswer[] {
  return [...(answers.get(new URL(url).origin)?.values() ?? [])]
}
