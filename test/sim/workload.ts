/**
 * Clients at work: a few users of a few accounts, which share what they learnt, repeat requests
 * without an answer, and race for the same things.
 */
import { hex, requestIdOfKey } from '@holdfast/kernel'
import {
  type AccountOperation,
  type AccountReply,
  type AccountRequest,
  AddFile,
  type Blob,
  blank,
  CreateFolder,
  type Item,
  ReadContent,
  AccountReply as Reply,
  SetAccount,
} from '@holdfast/wire'
import { type Cluster, type Frontend, keyring } from './cluster.ts'
import { type AskedRequest, type History, isRefused, statusOf } from './history.ts'
import type { Dice } from './random.ts'
import { startMs } from './scheduler.ts'

type Caller = NonNullable<AccountRequest['caller']>

/** What users know of an account, from their answers. */
export class KnownAccount {
  readonly id: string
  root = ''
  readonly folders = new Set<string>()
  readonly files = new Set<string>()
  counter = 0
  keyId = 1

  constructor(id: string) {
    this.id = id
  }
}

/** Stores bytes in the blob stores. @returns undefined when they were refused. */
export interface Uploads {
  /** @param content its number: equal numbers are equal bytes. */
  upload(frontend: Frontend, content: number): Promise<Blob | undefined>
}

/** Blobs by name alone: one permanent copy for each content. */
export const namedBlobs: Uploads = {
  async upload(_, content): Promise<Blob> {
    return {
      id: Buffer.alloc(48, content + 1),
      incarnation: Buffer.alloc(16, content + 1),
      size: 1000 * (content + 1),
      crc32: content,
      placementGroup: 1,
    }
  },
}

/** A command with an Idempotency-Key of its client's. */
interface KeyedCommand {
  account: KnownAccount
  operation: AccountOperation
  id: Buffer
}

/** Requests with a key. Some are sent again, also long after they were answered. */
const keyedMax = 40
const callMs = 6_000
const attemptsMax = 3
const contents = 12
const names = ['a', 'b', 'c', 'd']

export class Workload {
  readonly accounts: KnownAccount[]
  readonly #cluster: Cluster
  readonly #history: History
  readonly #dice: Dice
  readonly #uploads: Uploads
  readonly #answered: (reply: AccountReply) => void
  readonly #keyed: KeyedCommand[] = []
  #keys = 0
  #reports = 0

  constructor(
    cluster: Cluster,
    history: History,
    {
      dice,
      uploads,
      accounts,
      answered,
    }: {
      dice: Dice
      uploads: Uploads
      accounts: number | KnownAccount[]
      answered: (reply: AccountReply) => void
    },
  ) {
    this.#answered = answered
    this.#cluster = cluster
    this.#history = history
    this.#dice = dice
    this.#uploads = uploads
    const fresh = () => new KnownAccount(keyring.ids.account('eu-par', dice.bytes(8)))
    this.accounts = typeof accounts === 'number' ? Array.from({ length: accounts }, fresh) : accounts
  }

  /** Makes the accounts; half of them by a guest's first upload. */
  async begin(): Promise<void> {
    await Promise.all(
      this.accounts.map(async (account, at) => {
        while (account.root === '') {
          const email = at % 2 === 0 ? { email: `user${at}@example.org` } : {}
          await this.ask(
            account,
            { $case: 'createAccount', value: { email: undefined, tokenKeyId: 1, isNewId: true, ...email } },
            operator,
          )
          await this.ask(account, { $case: 'getAccount', value: {} }, operator)
        }
      }),
    )
  }

  /** @param untilMs virtual time. */
  async user(untilMs: number, eagerMs: number): Promise<void> {
    const { scheduler } = this.#cluster
    while (scheduler.nowMs < untilMs) {
      const account = this.#dice.pick(this.accounts)
      await this.#step(account)
      await scheduler.wait(this.#dice.between(0, eagerMs))
    }
  }

  /**
   * A timer is set and cleared, and set again while another host takes the account over: the first
   * owner will delete its row, the second one writes the same row.
   * @param silence pauses the owner.
   */
  async timer(silence: (host: string) => void): Promise<void> {
    const account = this.#dice.pick(this.accounts)
    const made = await this.ask(
      account,
      {
        $case: 'createFolder',
        value: { parentFolderId: account.root, name: 'timer', isPublic: undefined, modTime: undefined },
      },
      operator,
    )
    const folder = made?.result?.$case === 'content' ? made.result.value.item?.id : undefined
    const [frontend] = this.#cluster.frontends.values()
    const host = frontend?.view.hostOf(account.id)
    if (folder === undefined || host === undefined) return
    const expiry = Math.floor(this.#cluster.scheduler.nowMs / 1000) + 86_400
    await this.#expire(account, folder, expiry)
    await this.#expire(account, folder)
    silence(host)
    await this.#expire(account, folder, expiry)
  }

  async #expire(account: KnownAccount, contentId: string, expiry?: number): Promise<void> {
    const value = { expiry, deleteAfterExpiry: false }
    const attribute = { $case: 'expiry', value } as const
    await this.ask(account, { $case: 'updateContent', value: { contentId, attribute } }, operator)
  }

  /** What every user sees at the end. */
  async look(account: KnownAccount): Promise<{ view: AccountReply; tree: Item } | undefined> {
    const view = await this.ask(account, { $case: 'getAccount', value: {} }, operator)
    await this.ask(account, { $case: 'readBin', value: {} }, operator)
    const tree = await this.ask(account, readOf(account.root, 16), operator)
    if (view === undefined || tree?.result?.$case !== 'content') return undefined
    const { item } = tree.result.value
    return item === undefined ? undefined : { view, tree: item }
  }

  async #step(account: KnownAccount): Promise<void> {
    const dice = this.#dice
    const folder = () => dice.pick([account.root, ...account.folders])
    const any = () => dice.pick([...account.folders, ...account.files, account.root])
    const some = () =>
      [...new Set([any(), ...(dice.chance(0.3) ? [any()] : [])])].filter((id) => id !== account.root)
    const owner = dice.chance(0.7) ? bearer(account) : operator
    const act = (operation: AccountOperation, caller: Caller = owner) => this.ask(account, operation, caller)
    const kind = dice.roll(100)
    if (kind < 22) return this.#addFile(account, folder(), owner)
    if (kind < 29)
      return void (await act({
        $case: 'createFolder',
        value: { parentFolderId: folder(), name: dice.pick(names), isPublic: undefined, modTime: undefined },
      }))
    if (kind < 36) return this.#keyedFolder(account, folder())
    if (kind < 44) return void (await act({ $case: 'updateContent', value: this.#update(any()) }))
    if (kind < 52)
      return void (await act({
        $case: 'deleteContents',
        value: { contentIds: some(), representation: undefined, heldSeconds: undefined },
      }))
    if (kind < 56)
      return void (await act({ $case: 'moveContents', value: { contentIds: some(), folderId: folder() } }))
    if (kind < 60) return this.#copy(account, some(), folder(), owner)
    if (kind < 62) return this.#import(account)
    if (kind < 64) return this.#reset(account)
    if (kind < 66) return void (await act({ $case: 'setAccount', value: this.#settings() }, operator))
    if (kind < 68)
      return void (await act({
        $case: 'putDirectLink',
        value: { contentId: any(), link: link(), linkId: undefined },
      }))
    if (kind < 69) return void (await act({ $case: 'sendSignIn', value: {} }))
    if (kind < 71) return void (await act({ $case: 'restoreContents', value: { contentIds: some() } }))
    if (kind < 72) return void (await act({ $case: 'emptyBin', value: {} }))
    if (kind < 75) return void (await act(this.#report(account), system))
    if (kind < 80) return void (await act({ $case: 'getAccount', value: {} }))
    if (kind < 84) return void (await act({ $case: 'authenticate', value: {} }, bearer(account)))
    if (kind < 90) return void (await act(readOf(folder(), 1 + dice.roll(3))))
    if (kind < 95) return void (await act(readOf(folder(), 1), visitor))
    await act(
      {
        $case: 'openFile',
        value: { contentId: dice.pick([...account.files, account.root]), password: undefined },
      },
      visitor,
    )
  }

  /** A new one, or one of those before once more. */
  async #keyedFolder(account: KnownAccount, parentFolderId: string): Promise<void> {
    const value = { ...blank(CreateFolder), parentFolderId, name: this.#dice.pick(names) }
    const operation: AccountOperation = { $case: 'createFolder', value }
    const fresh = { account, operation, id: requestIdOfKey(`key ${++this.#keys}`) }
    const keyed = this.#dice.chance(0.4) ? this.#dice.pick([...this.#keyed, fresh]) : fresh
    if (keyed === fresh) this.#keyed.push(fresh)
    if (this.#keyed.length > keyedMax) this.#keyed.shift()
    await this.ask(keyed.account, keyed.operation, operator, { id: keyed.id })
  }

  async #addFile(account: KnownAccount, folderId: string, owner: Caller): Promise<void> {
    const frontend = await this.#frontend()
    const blob = await this.#uploads.upload(frontend, this.#dice.roll(contents))
    if (blob === undefined) return
    const value = {
      ...blank(AddFile),
      folderId: this.#dice.chance(0.9) ? folderId : undefined,
      name: this.#dice.pick(names),
      mimetype: 'text/plain',
      blob,
    }
    await this.ask(account, { $case: 'addFile', value }, owner, { frontend })
  }

  async #copy(account: KnownAccount, ids: string[], folderId: string, owner: Caller): Promise<void> {
    const sources = ids.map((contentId) => ({ contentId, manifest: undefined }))
    await this.ask(
      account,
      { $case: 'copyContents', value: { sources, folderId, skipUnreadable: false, password: undefined } },
      owner,
    )
  }

  /** The manifest first, some time later the copy: its source may be deleted by then. */
  async #import(into: KnownAccount): Promise<void> {
    const from = this.#dice.pick(this.accounts)
    const contentIds = [this.#dice.pick([...from.folders, ...from.files, from.root])]
    const taken = await this.ask(
      from,
      { $case: 'takeManifest', value: { contentIds, skipUnreadable: true, password: undefined } },
      visitor,
    )
    if (from === into || taken?.result?.$case !== 'manifest') return
    const sources = taken.result.value.manifests.flatMap((manifest) => {
      const contentId = manifest.entries[0]?.sourceId
      return contentId === undefined ? [] : [{ contentId, manifest }]
    })
    if (sources.length === 0) return
    await this.ask(
      into,
      {
        $case: 'copyContents',
        value: { sources, skipUnreadable: true, folderId: undefined, password: undefined },
      },
      bearer(into),
    )
  }

  async #reset(account: KnownAccount): Promise<void> {
    const reply = await this.ask(account, { $case: 'resetToken', value: { tokenKeyId: 1 } }, bearer(account))
    if (reply !== undefined) await this.ask(account, { $case: 'getAccount', value: {} }, operator)
  }

  #update(contentId: string): Extract<AccountOperation, { $case: 'updateContent' }>['value'] {
    const dice = this.#dice
    const attribute = dice.pick([
      { $case: 'name', value: dice.pick(names) },
      { $case: 'isPublic', value: dice.chance(0.5) },
      { $case: 'isPublic', value: dice.chance(0.5) },
      { $case: 'tags', value: dice.pick(['x', 'x,y', '']) },
      {
        $case: 'expiry',
        value: {
          expiry:
            Math.floor(this.#cluster.scheduler.nowMs / 1000) + (dice.chance(0.5) ? 86_400 : dice.roll(20)),
          deleteAfterExpiry: dice.chance(0.3),
        },
      },
      { $case: 'expiry', value: { deleteAfterExpiry: false, expiry: undefined } },
    ] as const)
    return { contentId, attribute }
  }

  #settings(): SetAccount {
    const dice = this.#dice
    const plain = blank(SetAccount)
    return dice.pick([
      { ...plain, recycleBin: dice.chance(0.5) },
      { ...plain, tier: dice.pick(['standard', 'premium']) },
      { ...plain, limitContents: 5 + dice.roll(20) },
      { ...plain, clearLimits: true },
    ])
  }

  #report(account: KnownAccount): AccountOperation {
    const counts = [...account.files].slice(0, 2).map((contentId) => ({ contentId, count: 1 }))
    const value = {
      source: Buffer.alloc(16, 9),
      sequence: ++this.#reports,
      counts,
      trafficDirect: 10,
      trafficWeb: 5,
    }
    return { $case: 'reportDownloads', value }
  }

  // ---- requests

  async #frontend(): Promise<Frontend> {
    for (;;) {
      const living = [...this.#cluster.frontends.values()]
      if (living.length > 0) return this.#dice.pick(living)
      await this.#cluster.scheduler.wait(200)
    }
  }

  /** Repeats a request until there is an answer, a few times; always with one request id. */
  async ask(
    account: KnownAccount,
    operation: AccountOperation,
    caller: Caller,
    first: { frontend?: Frontend; id?: Buffer } = {},
  ): Promise<AccountReply | undefined> {
    const { scheduler } = this.#cluster
    let frontend = first.frontend ?? (await this.#frontend())
    const requestId = first.id ?? this.#mint(frontend)
    const request = {
      accountId: account.id,
      requestId,
      caller,
      clientNetwork: undefined,
      clientRequest: undefined,
      traceparent: undefined,
      tierNeeded: '',
      operation,
      deadlineMs: 0,
    }
    const id = hex(requestId)
    const invoked = scheduler.note(`ask ${account.id.slice(0, 4)} ${id.slice(-6)} ${operation.$case}`)
    const asked: AskedRequest = {
      region: this.#cluster,
      account: account.id,
      request,
      id,
      invoked,
      invokedMs: scheduler.nowMs,
      reply: undefined,
      responded: Number.POSITIVE_INFINITY,
      retried: false,
    }
    this.#history.asked.push(asked)
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      try {
        const call = frontend.client.call(request, { timeoutMs: callMs })
        const reply = await Promise.race([call, frontend.died])
        asked.reply = reply
        asked.responded = scheduler.note(`answer ${id.slice(-6)} ${digest(reply)} ${statusOf(reply)}`)
        this.#learn(account, reply)
        this.#answered(reply)
        return reply
      } catch (error) {
        scheduler.note(`no answer ${id.slice(-6)}: ${(error as Error).message}`)
        asked.retried = true
      }
      await scheduler.wait(this.#dice.between(10, 500))
      frontend = await this.#frontend()
    }
    return undefined
  }

  #mint(frontend: Frontend): Buffer {
    const id = this.#dice.bytes(16)
    id.writeUIntBE(Math.max(startMs - 100_000, frontend.process.now()), 0, 6)
    return id
  }

  #learn(account: KnownAccount, reply: AccountReply): void {
    if (isRefused(reply)) return
    const { result } = reply
    if (result?.$case === 'account' && result.value.id === account.id) {
      account.root = result.value.rootFolder
      account.counter = Math.max(account.counter, result.value.tokenCounter)
    }
    if (result?.$case === 'content') this.#learnItem(account, result.value.item)
    if (result?.$case === 'copy') for (const { item } of result.value.results) this.#learnItem(account, item)
  }

  #learnItem(account: KnownAccount, item: Item | undefined): void {
    if (item === undefined || item.isRoot) return
    const known = item.isFolder ? account.folders : account.files
    known.add(item.id)
    if (known.size > 12) known.delete(known.values().next().value as string)
    for (const child of item.children) this.#learnItem(account, child)
    if (!item.isFolder && item.parentFolder !== undefined && item.parentFolder !== account.root)
      account.folders.add(item.parentFolder)
  }
}

export const operator: Caller = { who: { $case: 'operator', value: {} } }
const system: Caller = { who: { $case: 'system', value: {} } }
const visitor: Caller = { who: { $case: 'visitor', value: { accountId: '' } } }

function bearer(account: KnownAccount): Caller {
  const token = keyring.tokens.token(account.id as Parameters<typeof keyring.tokens.token>[0], {
    keyId: account.keyId,
    counter: account.counter,
  })
  return { who: { $case: 'bearer', value: { token: Buffer.from(token, 'base64url') } } }
}

function link() {
  return {
    id: '',
    expireTime: 0,
    sourceIpsAllowed: [],
    domainsAllowed: [],
    domainsBlocked: [],
    auth: [],
    createTime: 0,
  }
}

function readOf(contentId: string, maxDepth: number): AccountOperation {
  const value = {
    ...blank(ReadContent),
    contentId,
    page: 1,
    pageSize: 1000,
    sortField: 2,
    ascending: true,
    contentFilter: '',
    maxDepth,
  } as const
  return { $case: 'readContent', value }
}

function digest(reply: AccountReply): string {
  let sum = 0
  for (const byte of Reply.encode(reply).finish()) sum = (Math.imul(sum, 31) + byte) >>> 0
  return sum.toString(16)
}
