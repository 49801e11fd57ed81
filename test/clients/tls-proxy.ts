/**
 * Stands where `*.gofile.io` stands for clients that have those names built in: ends their TLS with a certificate of an authority
 * made for this run, and passes each request on by the name it was sent to.
 */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import https from 'node:https'
import type net from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface Authority {
  /** PEM file for `SSL_CERT_FILE`. */
  caFile: string
  key: string
  cert: string
}

/** An authority that lives in `folder`, and a certificate by it for one domain and its subdomains. Needs openssl. */
export async function makeAuthority(folder: string, domain: string): Promise<Authority> {
  const file = (name: string) => join(folder, name)
  const subject = (name: string) => ['-subj', `/CN=${name}`, '-days', '2', '-nodes', '-newkey', 'rsa:2048']
  await openssl([
    'req',
    '-x509',
    ...subject('Test authority'),
    '-keyout',
    file('ca.key'),
    '-out',
    file('ca.pem'),
  ])
  await openssl(['req', ...subject(domain), '-keyout', file('host.key'), '-out', file('host.csr')])
  const names = `subjectAltName=DNS:${domain},DNS:*.${domain}`
  await run('sh', ['-c', 'printf %s "$1" > "$2"', 'sh', names, file('host.ext')])
  const signed = [
    '-CA',
    file('ca.pem'),
    '-CAkey',
    file('ca.key'),
    '-CAcreateserial',
    '-days',
    '2',
    '-extfile',
    file('host.ext'),
  ]
  await openssl(['x509', '-req', '-in', file('host.csr'), ...signed, '-out', file('host.pem')])
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

export class TlsProxy {
  /** Requests by host, method and path, as they were passed on. */
  readonly passed: string[] = []
  readonly #tls: https.Server
  readonly #connect: http.Server
  readonly #agent = new http.Agent({ keepAlive: true })
  readonly #upstreamOf: (host: string) => string

  /** @param upstreamOf base URL (http) for a host name as clients call it. */
  constructor(authority: Authority, upstreamOf: (host: string) => string) {
    this.#upstreamOf = upstreamOf
    this.#tls = https.createServer({ key: authority.key, cert: authority.cert }, (request, response) =>
      this.#pass(request, response),
    )
    // As a proxy for CONNECT it ends the TLS of whatever name is asked for itself.
    this.#connect = http.createServer().on('connect', (_request, socket) => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      this.#tls.emit('connection', socket)
    })
  }

  /** Listens as the host itself. @throws when this process may not. */
  async listenAsHost(address: string): Promise<void> {
    await listen(this.#tls, address, 443)
  }

  /** Listens for CONNECT; resolves with what `HTTPS_PROXY` should say. */
  async listenAsProxy(): Promise<string> {
    await listen(this.#connect, '127.0.0.1', 0)
    return `http://127.0.0.1:${(this.#connect.address() as net.AddressInfo).port}`
  }

  async close(): Promise<void> {
    this.#agent.destroy()
    this.#tls.closeAllConnections()
    this.#connect.closeAllConnections()
    await Promise.all(
      [this.#tls, this.#connect].map((server) => new Promise((closed) => server.close(closed))),
    )
  }

  #pass(request: IncomingMessage, response: ServerResponse): void {
    const host = (request.headers.host ?? '').replace(/:\d+$/, '')
    const upstream = new URL(this.#upstreamOf(host))
    this.passed.push(`${host} ${request.method} ${request.url}`)
    const { hostname, port } = upstream
    const { method, url: path, headers } = request
    const onward = http.request({ hostname, port, method, path, headers, agent: this.#agent })
    onward.once('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    onward.once('error', () => (response.headersSent ? response.destroy() : response.writeHead(502).end()))
    request.pipe(onward)
  }
}

function listen(server: net.Server, address: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, address, () => resolve())
  })
}
