/**
 * What a case works with: the hosts of a running service, users with accounts, and the operator.
 */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { type AccountDetails, Answer, type DirectLink, type Item } from './answer.ts'
import { type RequestOptions, send } from './http.ts'
import type { Instances } from './instances.ts'
import { type Mail, mailsTo } from './mails.ts'
import { type FilePart, multipart, type Part } from './multipart.ts'

export interface Hosts {
  /** Several of a kind are used in turn: no answer may depend on which one gave it. */
  api: string[]
  upload: string[]
  download: string[]
  admin: string[]
  /** Undefined: the suite runs on the machine of the service. */
  adminToken: string | undefined
  web: string
  /** Directories of `.eml` files. */
  outbox: string[]
}

export interface CallOptions {
  token?: string | undefined
  query?: Record<string, string | number | boolean> | [string, string][]
  /** Sent as JSON. */
  json?: unknown
  /** Sent unchanged, with `type` as Content-Type. */
  body?: string | Uint8Array
  type?: string
  headers?: Record<string, string | string[]>
  from?: string
}

/** How long visitors may still see their earlier access. */
export const accessLagMs = 3_000
/** How long counts of downloads may lag. */
export const countLagMs = 5_000
/**
 * Longest time that a refused call waits for its budget before it is retried (a service with its
 * limits on).
 */
const patienceMs = 30_000
/**
 * The operator's programs share connections, of which the admin host accepts few. They do not come
 * from the address of each case.
 */
const operatorAddress = '127.0.0.1'

export class World {
  readonly hosts: Hosts
  readonly instances: Instances
  /** The address of this case's requests; undefined where the machine has only one. */
  readonly from: string | undefined
  /** False: a spent budget is an answer like any other. */
  readonly patient: boolean
  #turn = 0

  constructor(
    hosts: Hosts,
    instances: Instances,
    options: { from?: string | undefined; patient?: boolean } = {},
  ) {
    this.hosts = hosts
    this.instances = instances
    this.from = options.from
    this.patient = options.patient ?? true
  }

  /** The same users and operator against other hosts. */
  at(hosts: Hosts, options: { patient?: boolean; from?: string } = {}): World {
    return new World(hosts, this.instances, { from: this.from, ...options })
  }

  api(): string {
    return this.#next(this.hosts.api)
  }
  uploadHost(): string {
    return this.#next(this.hosts.upload)
  }

  get uploadName(): string {
    return new URL(this.uploadHost()).host
  }

  /**
   * A region's upload host by its public name, such as `upload-eu-par`. Without a proxy the request
   * goes to the usual address, and only its `host` header has the name.
   */
  #regionalHost(name: string): { url: string; headers: Record<string, string> } {
    const url = this.uploadHost()
    if (!this.isProxied) return { url, headers: { host: `${name}.example.test` } }
    return { url: url.replace(/(?<=\/\/)[^.]+/, name), headers: {} }
  }

  /**
   * Behind a proxy, which may answer by itself what is no HTTP, and paths that it cannot normalise.
   */
  get isProxied(): boolean {
    return this.api().startsWith('https:')
  }

  /**
   * Before an answer to a request whose body is not yet complete: Caddy gives it to clients with
   * HTTP/1 when more of the body comes (with HTTP/2 at once).
   */
  get waitsForBody(): boolean {
    return this.isProxied
  }

  #next(hosts: string[]): string {
    return hosts[this.#turn++ % hosts.length] as string
  }

  /** A call of the API host. */
  call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    return this.request(method, this.api() + path, options)
  }

  /** A call of any address. */
  async request(method: string, url: string, options: CallOptions = {}): Promise<Answer> {
    const started = Date.now()
    for (;;) {
      const answer = await this.#send(method, url, options)
      const wait = Number(answer.header('retry-after')) * 1_000
      if (answer.code !== 429 || !this.patient || !(Date.now() + wait < started + patienceMs)) return answer
      await sleep(Math.max(wait, 100))
    }
  }

  async #send(method: string, url: string, options: CallOptions): Promise<Answer> {
    const query = new URLSearchParams(
      (Array.isArray(options.query) ? options.query : Object.entries(options.query ?? {})).map(
        ([name, value]): [string, string] => [name, String(value)],
      ),
    ).toString()
    const target = query === '' ? url : `${url}${url.includes('?') ? '&' : '?'}${query}`
    const body = options.json === undefined ? options.body : JSON.stringify(options.json)
    const type = options.json === undefined ? options.type : 'application/json'
    const sent: RequestOptions = {
      method,
      headers: {
        ...(type === undefined ? {} : { 'content-type': type }),
        ...(options.token === undefined ? {} : { authorization: `Bearer ${options.token}` }),
        ...options.headers,
      },
      ...(body === undefined ? {} : { body }),
      from: options.from ?? this.from,
    }
    return new Answer(`${method} ${target}`, await send(target, sent))
  }

  /** A form to the upload host, or to the one that a region has of this name. */
  uploadForm(
    parts: readonly Part[],
    options: CallOptions & { path?: string; regional?: string } = {},
  ): Promise<Answer> {
    const form = multipart(parts)
    const { path = '/uploadfile', regional } = options
    const { url, headers } =
      regional === undefined ? { url: this.uploadHost(), headers: {} } : this.#regionalHost(regional)
    return this.request('POST', url + path, {
      ...options,
      headers: { ...options.headers, ...headers },
      body: form.body,
      type: form.contentType,
    })
  }

  /** A call of the admin listener, where the operator's `ctl` calls too. */
  admin(method: string, path: string, json?: unknown): Promise<Answer> {
    return this.request(method, this.#next(this.hosts.admin) + path, {
      ...(json === undefined ? {} : { json }),
      token: this.hosts.adminToken,
      ...(this.from !== undefined && this.hosts.adminToken === undefined ? { from: operatorAddress } : {}),
    })
  }

  /** The newest mail to an address, awaited. */
  mailTo(address: string, count = 1): Promise<Mail> {
    return eventually(async () => {
      const mails = await mailsTo(this.hosts.outbox, address)
      assert.ok(mails.length >= count, `${mails.length} mails to ${address}, expected ${count}`)
      return mails.at(-1) as Mail
    })
  }

  async guest(): Promise<Account> {
    const data = (await this.call('POST', '/accounts')).ok<AccountDetails>()
    return new Account(this, data)
  }

  async standard(email = newAddress()): Promise<Account> {
    const data = (await this.call('POST', '/accounts', { json: { email } })).ok<AccountDetails>()
    return new Account(this, data)
  }

  async premium(): Promise<Account> {
    const account = await this.guest()
    await account.operator({ tier: 'premium' })
    return account
  }
}

/** A user with an account token. */
export class Account {
  readonly world: World
  readonly id: string
  readonly root: string
  token: string

  constructor(world: World, data: { id: string; rootFolder: string; token: string }) {
    this.world = world
    this.id = data.id
    this.root = data.rootFolder
    this.token = data.token
  }

  call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    return this.world.call(method, path, { token: this.token, ...options })
  }

  /** What `POST /admin/accounts/<id>` merges into this account. */
  async operator(settings: Record<string, unknown>): Promise<void> {
    const answer = await this.world.admin('POST', `/admin/accounts/${this.id}`, settings)
    assert.equal(answer.code, 200, `the operator's call answered ${answer.code} ${answer.text}`)
  }

  async details(): Promise<AccountDetails> {
    return (await this.call('GET', `/accounts/${this.id}`)).ok<AccountDetails>()
  }

  async folder(
    options: { in?: string; name?: string; public?: boolean; modTime?: number } = {},
  ): Promise<Item> {
    return (
      await this.call('POST', '/contents/createFolder', {
        json: {
          parentFolderId: options.in ?? this.root,
          ...(options.name === undefined ? {} : { folderName: options.name }),
          ...(options.public === undefined ? {} : { public: options.public }),
          ...(options.modTime === undefined ? {} : { modTime: options.modTime }),
        },
      })
    ).ok()
  }

  /** Uploads a file into a folder (by default into the root). */
  async file(options: FileOptions = {}): Promise<Item> {
    return (await this.upload(options)).ok()
  }

  upload(options: FileOptions = {}): Promise<Answer> {
    const parts: Part[] = [{ name: 'folderId', value: options.in ?? this.root }, filePart(options)]
    if (options.modTime !== undefined) parts.unshift({ name: 'modTime', value: String(options.modTime) })
    return this.world.uploadForm(parts, { token: this.token, ...options.call })
  }

  read(id: string, query: Record<string, string | number> = {}): Promise<Answer> {
    return this.call('GET', `/contents/${id}`, { query })
  }

  update(
    id: string,
    attribute: string,
    attributeValue: unknown,
    more: Record<string, unknown> = {},
  ): Promise<Answer> {
    return this.call('PUT', `/contents/${id}/update`, { json: { attribute, attributeValue, ...more } })
  }

  remove(...ids: string[]): Promise<Answer> {
    return this.call('DELETE', '/contents', { json: { contentsId: ids.join(',') } })
  }

  copy(ids: string[], folderId: string, more: Record<string, unknown> = {}, headers = {}): Promise<Answer> {
    return this.call('POST', '/contents/copy', {
      json: { contentsId: ids.join(','), folderId, ...more },
      headers,
    })
  }

  move(ids: string[], folderId: string, headers = {}): Promise<Answer> {
    return this.call('PUT', '/contents/move', { json: { contentsId: ids.join(','), folderId }, headers })
  }

  import(ids: string[], more: Record<string, unknown> = {}, headers = {}): Promise<Answer> {
    return this.call('POST', '/contents/import', { json: { contentsId: ids.join(','), ...more }, headers })
  }

  search(
    contentId: string,
    searchedString: string,
    query: Record<string, string | number> = {},
  ): Promise<Answer> {
    return this.call('GET', '/contents/search', { query: { contentId, searchedString, ...query } })
  }

  async link(id: string, restrictions: Record<string, unknown> = {}): Promise<DirectLink> {
    return (await this.call('POST', `/contents/${id}/directlinks`, { json: restrictions })).ok<DirectLink>()
  }
}

export interface FileOptions {
  in?: string
  name?: string
  content?: Uint8Array | string
  type?: string
  modTime?: number
  call?: CallOptions
}

export function filePart(options: FileOptions = {}): FilePart {
  return {
    name: 'file',
    filename: options.name ?? 'file.txt',
    content: options.content ?? 'content',
    type: options.type,
  }
}

/** `Prefer` with the fields that rclone needs to see what a call made. */
export const representation = { prefer: 'return=representation' }

export function newAddress(): string {
  return `someone-${randomBytes(8).toString('hex')}@example.test`
}

export function randomContent(bytes: number): Buffer {
  return randomBytes(bytes)
}

export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

export function md5(content: Uint8Array | string): string {
  return createHash('md5').update(content).digest('hex')
}

export const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

export function nowSeconds(): number {
  return Math.floor(Date.now() / 1_000)
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/**
 * Takes steps that must end before a second in the future. If the steps end later, their result
 * does not count, whether they failed or not: they are repeated with twice the time.
 */
export async function inTime<T>(seconds: number, steps: (second: number) => Promise<T>): Promise<T> {
  const second = nowSeconds() + seconds
  const [taken] = await Promise.allSettled([steps(second)])
  if (Date.now() >= second * 1_000 && seconds <= 30) return inTime(seconds * 2, steps)
  if (taken.status === 'rejected') throw taken.reason
  return taken.value
}

/** Repeats a check until it does not throw; throws its last error when the time is over. */
export async function eventually<T>(check: () => Promise<T>, withinMs = 10_000): Promise<T> {
  const deadline = Date.now() + withinMs
  for (;;) {
    try {
      return await check()
    } catch (error) {
      if (Date.now() >= deadline) throw error
      await sleep(100)
    }
  }
}
