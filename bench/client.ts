/** The few calls a scenario needs to make ready what it measures. */
import type { Service } from './processes.ts'

export interface Account {
  id: string
  token: string
  rootFolder: string
}

export class Client {
  readonly service: Service

  constructor(service: Service) {
    this.service = service
  }

  /** A premium account whose limits are out of the way. */
  async account(): Promise<Account> {
    const account = (await this.json('POST', '/accounts', {})) as Account
    const answer = await fetch(new URL(`/admin/accounts/${account.id}`, this.service.admin), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ tier: 'premium', limits: { contents: 1_000_000_000, storage: 2 ** 50 } }),
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

  /** Fills a folder with `count` files by one upload and copies, doubling up to a thousand at once. */
  async fill(account: Account, folderId: string, count: number): Promise<void> {
    const form = new FormData()
    form.set('token', account.token)
    form.set('folderId', folderId)
    form.set('file', new Blob(['a child']), 'child.txt')
    await fetch(new URL('/uploadfile', this.service.upload), { method: 'POST', body: form })
    let sources = await this.#childIds(account, folderId)
    for (let have = 1; have < count; ) {
      if (sources.length < Math.min(1000, have)) sources = await this.#childIds(account, folderId)
      const some = sources.slice(0, count - have)
      await this.json('POST', '/contents/copy', { contentsId: some.join(','), folderId }, account.token)
      have += some.length
    }
  }

  /** Of the first page. */
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
