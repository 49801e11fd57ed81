/** The few calls that a scenario needs to prepare what it measures. */
import type { Service } from './processes.ts'

export interface Account {
  id: string
  token: string
  rootFolder: string
}

/** Files of a filled folder that are no copies. */
const different = 100
const types = ['jpg', 'png', 'mp4', 'pdf', 'txt']

export class Client {
  readonly service: Service

  constructor(service: Service) {
    this.service = service
  }

  /** A premium account without limits. */
  async account(): Promise<Account> {
    const account = (await this.json('POST', '/accounts', {})) as Account
    const answer = await fetch(new URL(`/admin/accounts/${account.id}`, this.service.admin), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ tier: 'premium', limits: { contents: 1_000_000, storage: 2 ** 50 } }),
    })
    if (!answer.ok)
      throw new Error(`the account was not made premium: ${answer.status} ${await answer.text()}`)
    return account
  }

  async folder(account: Account, parentFolderId: string, folderName: string): Promise<string> {
    const folder = await this.json(
      'POST',
      '/contents/createFolder',
      { parentFolderId, folderName },
      account.token,
    )
    return (folder as { id: string }).id
  }

  async json(method: string, path: string, body?: unknown, token?: string): Promise<unknown> {
    const answer = await fetch(new URL(path, this.service.api), {
      method,
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const envelope = (await answer.json()) as { status: string; data?: unknown }
    if (envelope.status !== 'ok') throw new Error(`${method} ${path}: ${answer.status} ${envelope.status}`)
    return envelope.data
  }

  /** Links of the files in a folder. */
  async links(account: Account, folderId: string): Promise<URL[]> {
    const folder = (await this.json('GET', `/contents/${folderId}`, undefined, account.token)) as {
      children: Record<string, { link?: string }>
    }
    return Object.values(folder.children).flatMap((child) => (child.link ? [new URL(child.link)] : []))
  }

  /**
   * Fills a folder with `count` files: some uploads, of different names, sizes and types, and
   * copies of them, up to a thousand at once.
   */
  async fill(account: Account, folderId: string, count: number): Promise<void> {
    const uploads = Math.min(different, count)
    await Promise.all(Array.from({ length: uploads }, (_, n) => this.#upload(account, folderId, n)))
    let sources = await this.#childIds(account, folderId)
    for (let have = uploads; have < count; ) {
      if (sources.length < Math.min(1000, have)) sources = await this.#childIds(account, folderId)
      const some = sources.slice(0, count - have)
      await this.json('POST', '/contents/copy', { contentsId: some.join(','), folderId }, account.token)
      have += some.length
    }
  }

  async #upload(account: Account, folderId: string, n: number): Promise<void> {
    const form = new FormData()
    form.set('token', account.token)
    form.set('folderId', folderId)
    // 37 and the number of files have no common factor: neighbours in one order are none in the
    // others.
    form.set(
      'file',
      new Blob(['x'.repeat(1 + n)]),
      `${(n * 37) % different} of a journey.${types[n % types.length]}`,
    )
    const answer = await fetch(new URL('/uploadfile', this.service.upload), { method: 'POST', body: form })
    if (!answer.ok) throw new Error(`an upload was refused: ${answer.status} ${await answer.text()}`)
  }

  /** The children on the first page. */
  async #childIds(account: Account, folderId: string): Promise<string[]> {
    const path = `/contents/${folderId}?pageSize=1000`
    const folder = (await this.json('GET', path, undefined, account.token)) as {
      children: Record<string, unknown>
    }
    return Object.keys(folder.children)
  }
}

/** A request without a body, prepared. */
export function get(url: URL, token?: string, extra = ''): Buffer {
  const authorization = token === undefined ? '' : `Authorization: Bearer ${token}\r\n`
  return Buffer.from(
    `GET ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\n${authorization}${extra}\r\n`,
  )
}

export function post(url: URL, body: unknown, token?: string): Buffer {
  const text = JSON.stringify(body)
  const authorization = token === undefined ? '' : `Authorization: Bearer ${token}\r\n`
  return Buffer.from(
    `POST ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\n${authorization}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  )
}
