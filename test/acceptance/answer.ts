import assert from 'node:assert/strict'
import type { HttpAnswer } from './http.ts'

/** HTTP codes of the contract's statuses; any other status has 400. */
export const httpCodes: Record<string, number> = {
  'error-token': 401,
  'error-notPremium': 401,
  'error-owner': 401,
  'error-notOwner': 401,
  'error-passwordRequired': 401,
  'error-passwordWrong': 401,
  'error-accountId': 403,
  'error-forbidden': 403,
  'error-limits': 403,
  'error-rootFolder': 403,
  'error-protectedFolder': 403,
  'error-notFound': 404,
  'error-method': 405,
  'error-timeout': 408,
  'error-alreadyDone': 409,
  'error-precondition': 412,
  'error-bodySize': 413,
  'error-fileSize': 413,
  'error-range': 416,
  'error-expect': 417,
  'error-rateLimit': 429,
  'error-headerSize': 431,
  'error-blocked': 451,
  'error-internal': 500,
  'error-unavailable': 503,
  'error-storageFull': 507,
}

/**
 * A content as the service shows it. Fields that do not apply are absent, although the type here
 * has them.
 */
export interface Item {
  id: string
  type: 'file' | 'folder'
  name: string
  parentFolder: string
  parentFolderCode: string
  downloadPage: string
  guestToken: string
  code: string
  createTime: number
  modTime: number
  isOwner: boolean
  canAccess: boolean
  public: boolean
  password: boolean
  passwordStatus: string
  expiry: number
  deleteAfterExpiry: boolean
  description: string
  tags: string
  childrenCount: number
  children: Record<string, Item>
  size: number
  md5: string
  mimetype: string
  downloads: number
  servers: string[]
  serverSelected: string
  link: string
  directLinks: Record<string, DirectLink>
}

export interface DirectLink {
  id: string
  expireTime: number
  sourceIpsAllowed: string[]
  domainsAllowed: string[]
  domainsBlocked: string[]
  auth: string[]
  isReqLink: boolean
  directLink: string
}

export interface AccountDetails {
  id: string
  email: string
  emailConfirmed: boolean
  tier: string
  premiumType: string | null
  token: string
  rootFolder: string
  createTime: number
  statsCurrent: {
    storage: number
    fileCount: number
    folderCount: number
    trafficDirectGenerated: number
    trafficWebDownloaded: number
  }
  limits: { storage: number | null; contents: number | null; traffic: number | null }
  recycleBin: { enabled: boolean; folder: string }
  subscriptionProvider: string | null
  subscriptionEndDate: number | null
  subscriptionLimitStorage: number | null
  subscriptionLimitDirectTraffic: number | null
}

export interface Metadata {
  page: number
  pageSize: number
  totalCount: number
  totalPages: number
  hasNextPage: boolean
}

interface Envelope {
  status: string
  data?: unknown
  metadata?: Metadata
}

/** One answer, whose envelope is checked at its first use as one. */
export class Answer implements HttpAnswer {
  readonly code: number
  readonly headers: HttpAnswer['headers']
  readonly rawHeaders: string[]
  readonly body: Buffer
  readonly #request: string

  constructor(request: string, received: HttpAnswer) {
    this.code = received.code
    this.headers = received.headers
    this.rawHeaders = received.rawHeaders
    this.body = received.body
    this.#request = request
  }

  get text(): string {
    return this.body.toString()
  }

  header(name: string): string {
    const value = this.headers[name.toLowerCase()]
    return Array.isArray(value) ? value.join(', ') : (value ?? '')
  }

  /** Every answer of the API has one of the two shapes of the contract, with the common headers. */
  envelope(): Envelope {
    const said = `${this.#request} answered ${this.code} ${this.text.slice(0, 300)}`
    assert.equal(this.header('content-type'), 'application/json; charset=utf-8', `${said}: not JSON`)
    assert.equal(this.header('cache-control'), 'no-store', `${said}: Cache-Control`)
    assert.ok(this.header('x-request-id').length > 0, `${said}: no X-Request-Id`)
    const envelope = JSON.parse(this.text) as Envelope
    if (envelope.status === 'ok') {
      assert.equal(this.code, 200, `${said}: ok with another code than 200`)
      assert.ok(typeof envelope.data === 'object' && envelope.data !== null, `${said}: ok without data`)
      for (const key of Object.keys(envelope))
        assert.ok(['status', 'data', 'metadata'].includes(key), `${said}: ${key} in the envelope`)
    } else {
      assert.match(envelope.status, /^error-[A-Za-z]+$/, `${said}: not a status`)
      assert.deepEqual(Object.keys(envelope), ['status'], `${said}: an error holds status alone`)
    }
    return envelope
  }

  /** `data` of a success; anything else fails the case. */
  ok<T = Item>(): T {
    const envelope = this.envelope()
    assert.equal(envelope.status, 'ok', `${this.#request} answered ${this.code} ${envelope.status}`)
    return envelope.data as T
  }

  listing(): { folder: Item; children: Item[]; names: string[]; metadata: Metadata } {
    const folder = this.ok()
    const metadata = this.envelope().metadata
    assert.ok(metadata, `${this.#request}: a folder read without metadata`)
    const children = Object.values(folder.children)
    return { folder, children, names: children.map((child) => child.name), metadata }
  }

  /** The answer is one of these refusals, under the HTTP code of the contract. */
  refused(...statuses: string[]): void {
    const { status } = this.envelope()
    assert.ok(
      statuses.includes(status),
      `${this.#request} answered ${this.code} ${status}, expected ${statuses.join(' or ')}`,
    )
    assert.equal(
      this.code,
      httpCodes[status] ?? 400,
      `${this.#request} answered ${status} with another HTTP code`,
    )
  }
}
