/**
 * Plain requests over node:http, without any normalisation: paths, headers and bodies are sent as
 * given.
 */
import dns from 'node:dns'
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import https from 'node:https'
import net, { isIP, type LookupFunction } from 'node:net'
import tls from 'node:tls'
import { note, noteRaw } from './seen.ts'

/** No answer of the service takes this long, uploads of the suite included. */
const requestTimeoutMs = 45_000
/** Where all names lead; undefined: DNS says it. */
let addressOfNames: string | undefined
const lookup: LookupFunction = (name, options, found) => {
  if (addressOfNames === undefined) return dns.lookup(name, options, found)
  const family = isIP(addressOfNames)
  if (options.all) found(null, [{ address: addressOfNames, family }])
  else found(null, addressOfNames, family)
}
const agents = {
  'http:': new http.Agent({ keepAlive: true, maxSockets: 256 }),
  'https:': new https.Agent({ keepAlive: true, maxSockets: 256 }),
}

/** From now on all names lead to this address, as those of a proxy that no DNS knows. */
export function leadNamesTo(address: string): void {
  addressOfNames = address
}

export interface RequestOptions {
  method?: string
  headers?: Record<string, string | string[]>
  body?: Uint8Array | string
  /** Local address to send from; several addresses look like several clients. */
  from?: string | undefined
  /** How long a silence may last; default 45 s. */
  timeoutMs?: number
}

export interface HttpAnswer {
  code: number
  headers: IncomingHttpHeaders
  /** Name, value, name, value, … as received. */
  rawHeaders: string[]
  body: Buffer
}

export async function send(url: string | URL, sent: RequestOptions = {}): Promise<HttpAnswer> {
  const received = await once(url, sent)
  note(sent.method ?? 'GET', String(url), received)
  return received
}

function once(url: string | URL, sent: RequestOptions): Promise<HttpAnswer> {
  const target = new URL(url)
  const body = typeof sent.body === 'string' ? Buffer.from(sent.body) : sent.body
  const path = rawPathOf(url) ?? target.pathname + target.search
  const { timeoutMs = requestTimeoutMs } = sent
  return new Promise((resolve, reject) => {
    const request = (target.protocol === 'https:' ? https : http).request({
      protocol: target.protocol,
      hostname: target.hostname.replace(/^\[|\]$/g, ''),
      port: target.port,
      lookup,
      path,
      method: sent.method ?? 'GET',
      headers: { ...(body ? { 'content-length': String(body.length) } : {}), ...sent.headers },
      agent: target.protocol === 'https:' ? agents['https:'] : agents['http:'],
      ...(sent.from === undefined ? {} : { localAddress: sent.from }),
      timeout: timeoutMs,
    })
    request.once('timeout', () => request.destroy(new Error(`no answer in ${timeoutMs} ms: ${url}`)))
    // A kept connection may be closed by a proxy at the moment when it is used again.
    request.once('error', (error: NodeJS.ErrnoException) => {
      if (request.reusedSocket && error.code === 'ECONNRESET') once(url, sent).then(resolve, reject)
      else reject(error)
    })
    request.once('response', (response) => {
      read(response).then(resolve, reject)
    })
    request.end(body)
  })
}

async function read(response: IncomingMessage): Promise<HttpAnswer> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return {
    code: response.statusCode ?? 0,
    headers: response.headers,
    rawHeaders: response.rawHeaders,
    body: Buffer.concat(chunks),
  }
}

/** `URL` would resolve `..` and escape bytes; the text after the host is sent unchanged. */
function rawPathOf(url: string | URL): string | undefined {
  if (typeof url !== 'string') return undefined
  return /^https?:\/\/[^/?#]+([/?][^#]*)/.exec(url)?.[1]
}

export interface RawExchange {
  /** Everything received until the peer closed, or until `until` matched. */
  text: string
  closed: boolean
}

/** A bare connection to a host, over TLS where it has it. */
export function connectTo(target: URL, from?: string): net.Socket {
  const address = {
    host: target.hostname.replace(/^\[|\]$/g, ''),
    port: Number(target.port || (target.protocol === 'https:' ? 443 : 80)),
    lookup,
    ...(from === undefined ? {} : { localAddress: from }),
  }
  return target.protocol === 'https:'
    ? tls.connect({ ...address, servername: target.hostname })
    : net.connect(address)
}

/**
 * Writes bytes to a bare socket and collects the answer: for requests that no client would send.
 */
export function rawExchange(
  url: string,
  bytes: Uint8Array | string,
  options: {
    until?: RegExp
    timeoutMs?: number
    halfClose?: boolean
    from?: string | undefined
    /** Sends a byte of the body from time to time. */
    continues?: boolean
  } = {},
): Promise<RawExchange> {
  const target = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connectTo(target, options.from)
    let text = ''
    const end = () => {
      clearTimeout(timer)
      clearInterval(continuing)
      socket.destroy()
    }
    const finish = (closed: boolean) => {
      end()
      noteRaw(url, Buffer.from(bytes as string).toString('latin1'), text)
      resolve({ text, closed })
    }
    const timer = setTimeout(() => finish(false), options.timeoutMs ?? 5_000)
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      if (options.until?.test(text)) finish(false)
    })
    socket.once('close', () => finish(true))
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE' || error.code === 'ECONNRESET') return finish(true)
      end()
      reject(error)
    })
    socket.write(bytes)
    const continuing = options.continues ? setInterval(() => socket.write('x'), 200) : undefined
    if (options.halfClose) socket.end()
  })
}
