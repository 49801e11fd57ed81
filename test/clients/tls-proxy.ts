/**
 * Replaces `gofile.io` and its hosts for clients with built-in names: ends their TLS with a
 * certificate of an authority made for this run, and forwards each request by its host name, as an
 * operator's proxy does.
 */
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import https from 'node:https'
import type net from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface Authority {
  /** PEM file of the authority's certificate. */
  caFile: string
  key: string
  cert: string
}

/**
 * An authority stored in `folder`, and its certificate for one domain and its subdomains. Needs
 * openssl.
 */
export async function makeAuthority(folder: string, domain: string): Promise<Authority> {
  const file = (name: string) => join(folder, name)
  const subject = (name: string) => ['-subj', `/CN=${name}`, '-days', '2', '-nodes', '-newkey', 'rsa:2048']
  // Strict clients (Python 3.13) require the purpose of the authority's key.
  const uses = ['-addext', 'keyUsage=critical,keyCertSign,cRLSign']
  const made = ['-keyout', file('ca.key'), '-out', file('ca.pem')]
  await openssl(['req', '-x509', ...subject('Test authority'), ...uses, ...made])
  await openssl(['req', ...subject(domain), '-keyout', file('host.key'), '-out', file('host.csr')])
  await writeFile(file('host.ext'), `subjectAltName=DNS:${domain},DNS:*.${domain}\n`)
  const by = ['-CA', file('ca.pem'), '-CAkey', file('ca.key'), '-CAcreateserial', '-days', '2']
  const extended = ['-extfile', file('host.ext'), '-out', file('host.pem')]
  await openssl(['x509', '-req', '-in', file('host.csr'), ...by, ...extended])
  const [key, cert] = await Promise.all([
    readFile(file('host.key'), 'utf8'),
    readFile(file('host.pem'), 'utf8'),
  ])
  return { caFile: file('ca.pem'), key, cert }
}

async function openssl(args: string[]): Promise<void> {
  await run('openssl', args).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') throw new Error('openssl is missing; install it (Debian: openssl)')
    throw error
  })
}

/** A forwarded request. */
export interface Call {
  /** First label of the host's name; empty for the domain itself. */
  host: string
  method: string
  /** With its query. */
  path: string
  /** The status of the answer; 0 while there is none. */
  status: number
  /** Why the service gave none; empty if it did. */
  broken: string
}

export class TlsProxy {
  readonly #tls: https.Server
  /**
   * Idle connections end before the service closes them, after 65 s. A request sent while the
   * connection closes gets no answer, and a client does not repeat a form.
   */
  readonly #agent = new http.Agent({ keepAlive: true, timeout: 30_000 })
  /** When connections to the service were last used. New ones have no entry. */
  readonly #freeSinceMs = new WeakMap<net.Socket, number>()
  readonly #domain: string
  readonly #upstreamOf: (host: string) => string
  readonly #callsTo = new Map<string, Call[]>()

  /** @param upstreamOf base URL (http) for a host, named by its first label. */
  constructor(authority: Authority, domain: string, upstreamOf: (host: string) => string) {
    this.#domain = domain
    this.#upstreamOf = upstreamOf
    this.#tls = https.createServer({ key: authority.key, cert: authority.cert }, (request, response) =>
      this.#pass(request, response),
    )
    this.#agent.on('free', (socket: net.Socket) => this.#freeSinceMs.set(socket, performance.now()))
  }

  /** Listens as every host, on every address of this machine. */
  listen(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#tls.once('error', reject)
      this.#tls.listen(443, '0.0.0.0', () => resolve())
    })
  }

  /** Calls received on one of our addresses, in the order in which they began. Grows. */
  callsTo(address: string): Call[] {
    const calls = this.#callsTo.get(address) ?? []
    this.#callsTo.set(address, calls)
    return calls
  }

  async close(): Promise<void> {
    this.#agent.destroy()
    this.#tls.closeAllConnections()
    await new Promise((closed) => this.#tls.close(closed))
  }

  #pass(request: IncomingMessage, response: ServerResponse): void {
    const socket = request.socket as TLSSocket
    const name = (request.headers.host ?? '').replace(/:\d+$/, '')
    const host = name === this.#domain ? '' : name.slice(0, -this.#domain.length - 1)
    const { method = '', url: path = '', headers } = request
    const call: Call = { host, method, path, status: 0, broken: '' }
    this.callsTo(socket.localAddress ?? '').push(call)
    const { hostname, port } = new URL(this.#upstreamOf(host))
    const forwarded = { ...headers, 'x-forwarded-for': personAt(socket), 'x-forwarded-proto': 'https' }
    const onward = http.request({ hostname, port, method, path, headers: forwarded, agent: this.#agent })
    onward.once('response', (answer) => {
      call.status = answer.statusCode ?? 502
      response.writeHead(call.status, answer.headers)
      answer.pipe(response)
      // A response that breaks behind must not look whole in front.
      answer.once('error', () => response.destroy())
    })
    const sentMs = performance.now()
    onward.once('error', (error: NodeJS.ErrnoException) => {
      const freeSinceMs = this.#freeSinceMs.get(onward.socket as net.Socket)
      const idle = freeSinceMs === undefined ? '' : `; idle for ${Math.round(sentMs - freeSinceMs)} ms before`
      call.broken = `${error.code ?? error.message} after ${Math.round(performance.now() - sentMs)} ms${idle}`
      if (response.headersSent) response.destroy()
      else response.writeHead(502).end()
    })
    response.once('close', () => onward.destroy())
    request.pipe(onward)
  }
}

/**
 * Each user calls a separate address of the proxy and counts as a client on the internet with the
 * same last number.
 */
function personAt({ localAddress = '' }: net.Socket): string {
  return `203.0.113.${localAddress.split('.').at(-1)}`
}
