/** The admin host for the operator's program: JSON calls, and failures in words. */
import http from 'node:http'
import https from 'node:https'
import { text } from 'node:stream/consumers'

/** The host answered with a refusal. */
export class AdminError extends Error {
  override readonly name = 'AdminError'
  readonly code = 'ADMIN_REFUSED'
  readonly status: string
  /** The partial result. It is printed like the answer of a command that succeeds. */
  readonly report: string | undefined

  constructor(status: string, { report }: { report?: string } = {}) {
    super(reasons[status] ?? status)
    this.status = status
    this.report = report
  }
}

/** There was no answer, or it came from another program. */
export class AdminUnreachable extends Error {
  override readonly name = 'AdminUnreachable'
  readonly code = 'ADMIN_UNREACHABLE'
}

/** Explanations of the admin host's statuses for the operator. */
export const reasons: Readonly<Record<string, string>> = {
  'error-notFound': 'no such account',
  'error-content': 'no such content: name it by its id, its share code, or a link to it',
  'error-contents': 'no such deletion: name the id of one that deletions list shows',
  'error-days': '--days takes a whole number from 1 to 3650',
  'error-searchedString': 'name a text to look for',
  'error-protectedFolder': 'a root folder or bin is not deleted',
  'error-final': 'such an act cannot be undone',
  'error-act': 'no such act: acts shows them',
  'error-email':
    'the address is not usable: malformed, a guest’s, known already, or not of HOLDFAST_SIGNUP_DOMAINS',
  'error-limits': 'the account, or the list, is full',
  'error-blocked': 'its invitations were withdrawn: unblock invitation lets it be invited again',
  'error-names':
    'a name is malformed: content is an md5 or a BLAKE3 in hex, a network an address or a CIDR range, an invitation an e-mail address',
  'error-wide':
    'a range wider than /8 (IPv6: /16) shuts out a large part of all clients: if you mean it, repeat with --yes',
  'error-address': 'the address is neither an address nor a CIDR range',
  'error-hash': 'a hash is an md5 or a BLAKE3 in hex',
  'error-report': 'no such report: reports list shows them',
  'error-tooMany':
    'the folder has more contents than one report blocks: suspend the account, or delete the folder',
  'error-reason': 'a reason has at most 500 characters',
  'error-after': 'no such place: --after takes what the search printed',
  'error-tooLate': 'it was done more than 30 days ago',
  'error-token':
    'the admin host wants its token of everybody but root and the user of the service on its own machine: set HOLDFAST_ADMIN_TOKEN (or HOLDFAST_ADMIN_TOKEN_FILE), or run this as that user',
  'error-forbidden': 'the admin host only answers calls made to localhost or to an address',
  'error-unavailable': 'the service is starting, stopping or out of reach of its data: try again',
  'error-rateLimit': 'too many wrong tokens: wait a minute',
  'error-region': 'no such region, or no other one keeps its journals',
  'error-regionAlive': 'actor hosts of the region are alive: stop them first',
  'error-regionHome': 'its accounts were never served elsewhere',
  'error-regionAway':
    'the region has no actor hosts yet, or the one that serves its accounts does not answer: once both are there repeat it, or, when that one is off or cut off, with --fenced',
  'error-notFenced':
    'too few other regions answer: make sure that the region is off or cut off from its users, then repeat with --fenced',
  'error-noCluster': 'this service is no cluster',
  'error-noAccounts':
    'the called process has no access to accounts: --admin names an API frontend or an actor host (ctl status)',
  'error-node': 'no storage node of this name is alive or known: ctl status names them',
  'error-nodeAlive': 'the node is alive and holds placement groups: drain it first',
  'error-nodeLast':
    'no other storage node of its region is ready and an ordinary one: add one, start one, or make a drained one ordinary by node return',
  'error-running': 'another backup, verification, import or export is running: wait for its end',
  'error-runLost': 'the service was started again or began another run: repeat the command',
  'error-target': 'the target must be a directory on the machine of the service',
  'error-internal': 'the service failed: its log says why',
}

/** Collecting a large store takes minutes. */
const answerTimeoutMs = 10 * 60_000

export type AdminCall = (
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  body?: unknown,
) => Promise<Record<string, unknown>>

/** How a program reaches an admin host. */
export interface AdminAccess {
  url: string
  token: string | undefined
  /** Whom the log of acts names. */
  operator: string | undefined
  /** PEM of the only authority that certificates may be of. Undefined: those of the system. */
  ca: string | undefined
}

/**
 * @throws AdminError when the host refuses.
 * @throws AdminUnreachable when it does not answer, or its answer is not our envelope.
 */
export function adminClient({ url, token, operator, ca }: AdminAccess): AdminCall {
  const headers = {
    'content-type': 'application/json',
    ...(operator === undefined ? {} : { 'x-operator': encodeURIComponent(operator) }),
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  }
  return async (method, path, body) => {
    const answer = await ask(new URL(path, url), {
      method,
      headers,
      ca,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (answer.status !== 'ok') throw new AdminError(answer.status)
    return answer.data ?? {}
  }
}

interface Envelope {
  status: string
  data?: Record<string, unknown>
}

interface AdminRequest {
  method: string
  headers: Record<string, string>
  ca: string | undefined
  body?: string
}

async function ask(url: URL, asking: AdminRequest): Promise<Envelope> {
  let answer: string
  try {
    answer = await answerTo(url, asking)
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    throw new AdminUnreachable(`no answer from ${url.origin} (${message || code}): ${adviceOn(url, code)}`, {
      cause: error,
    })
  }
  const envelope = parse(answer)
  if (envelope === undefined) throw new AdminUnreachable(`${url.origin} is no admin host of Holdfast`)
  return envelope
}

/** What probably has to be changed, by the code of Node or OpenSSL. */
function adviceOn({ protocol }: URL, code = ''): string {
  if (protocol === 'http:' && code === 'ECONNRESET')
    return 'it may answer by TLS alone (HOLDFAST_ADMIN_TLS): set HOLDFAST_TLS_CA to the file of its authority'
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'EPROTO')
    return 'it may answer without TLS: set HOLDFAST_ADMIN_TLS=off, or write http:// before the address'
  if (/^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/.test(code))
    return 'set HOLDFAST_TLS_CA to the file of the authority that its certificate is of'
  if (code === 'CERT_HAS_EXPIRED') return 'renew its certificate (ctl certs renew)'
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return 'call it by an address of its certificate: the internal one of its host'
  return 'is the service running, and is this its admin host (--admin, HOLDFAST_ADMIN_PORT)?'
}

/** `fetch` waits for five minutes at most, and has no setting for it. */
async function answerTo(url: URL, { method, headers, ca, body }: AdminRequest): Promise<string> {
  const { request } = url.protocol === 'https:' ? https : http
  const signal = AbortSignal.timeout(answerTimeoutMs)
  const answer = await new Promise<http.IncomingMessage>((resolve, reject) => {
    request(url, { method, headers, ca, signal }, resolve).once('error', reject).end(body)
  })
  return text(answer)
}

function parse(answer: string): Envelope | undefined {
  try {
    const value: unknown = JSON.parse(answer)
    const status = (value as Envelope | null)?.status
    return typeof status === 'string' ? (value as Envelope) : undefined
  } catch {
    return undefined
  }
}
