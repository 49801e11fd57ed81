/**
 * An ordinary user: uploads, lists, downloads, makes folders, opens another user's protected
 * folder, and checks every byte and every acknowledged change. Calls are due at fixed times,
 * also after earlier ones failed. The latency of a call counts from its due time to its success,
 * so a service that pauses for two seconds has made forty calls late, not one.
 */
import { createHash } from 'node:crypto'
import http from 'node:http'
import { multipart } from '../../acceptance/multipart.ts'
import { SeededNumbers } from '../seeded.ts'
import type { Visit } from './attack.ts'

/** Interval between a user's calls. */
const everyMs = 50
/** Maximum of running calls, as in programs of today; later ones wait for one of them. */
const underWayMax = 8
/** A call that has no success after this time is given up, with this latency. */
export const givenUpMs = 20_000
/** Everything acknowledged is read within this time, or the service counts as not recovered. */
const verifyMaxMs = 60_000
/** Most contents of one folder, so that listings stay as long as they are. */
const folderContentsMax = 40
const smallBytes = 8_192
const largeBytes = 262_144

export interface UserOptions {
  from: string
  hosts: { api: string; upload: string; download: string }
  token: string
  root: string
  visits: readonly Visit[]
  seed: number
}

export interface Sample {
  kind: Kind
  /** Unix time, milliseconds. */
  dueMs: number
  doneMs: number
  refused: number
}

export type Kind = 'createFolder' | 'upload' | 'list' | 'download' | 'visit'

interface KeptContent {
  id: string
  name: string
  folder: string
  /** A file's content; undefined for a folder. */
  content: { md5: string; bytes: number } | undefined
}

interface Answer {
  code: number
  body: Buffer
  retryAfterMs: number
}

/** The answer cannot be true. */
class WrongAnswer extends Error {}

export class User {
  readonly samples: Sample[] = []
  /** Missing acknowledged things, and bytes that differ from those sent. */
  readonly lost: string[] = []
  /** Answers that no ordinary call should get. */
  readonly strange: string[] = []
  readonly #options: UserOptions
  readonly #agent: http.Agent
  readonly #random: SeededNumbers
  readonly #kept: KeptContent[] = []
  readonly #waiting: (() => void)[] = []
  #folder: string
  #inFolder = 0
  #underWay = 0
  #calls = 0
  #visits = 0
  #running = false

  constructor(options: UserOptions) {
    this.#options = options
    this.#folder = options.root
    this.#random = new SeededNumbers(options.seed)
    this.#agent = new http.Agent({ keepAlive: true, maxSockets: underWayMax, localAddress: options.from })
  }

  get acknowledged(): number {
    return this.#kept.length
  }

  /** Runs until `stop`; resolves when the last call has its answer or was given up. */
  async run(): Promise<void> {
    this.#running = true
    const calls = new Set<Promise<void>>()
    const started = Date.now()
    for (let turn = 0; this.#running; turn++) {
      const dueMs = started + turn * everyMs
      await sleep(dueMs - Date.now())
      const call = this.#call(dueMs).finally(() => calls.delete(call))
      calls.add(call)
    }
    await Promise.all(calls)
  }

  stop(): void {
    this.#running = false
  }

  /** Looks for everything that was ever acknowledged, and reads every byte of it. */
  async verify(): Promise<void> {
    const deadline = Date.now() + verifyMaxMs
    const folders = [...new Set(this.#kept.map((kept) => kept.folder))]
    const works = [
      ...folders.map((folder) => () => this.#list(folder)),
      ...this.#kept.filter(({ content }) => content !== undefined).map((file) => () => this.#download(file)),
    ]
    for (const work of works)
      for (let waitMs = await this.#try(work); waitMs !== undefined; waitMs = await this.#try(work)) {
        if (Date.now() + waitMs > deadline) {
          this.strange.push(`what was acknowledged could not be read within ${verifyMaxMs / 1_000} s`)
          return
        }
        await sleep(waitMs)
      }
  }

  close(): void {
    this.#agent.destroy()
  }

  async #call(dueMs: number): Promise<void> {
    if (this.#underWay >= underWayMax) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#underWay++
    const number = this.#calls++
    const [kind, work] = this.#draw(number)
    let refused = 0
    for (;;) {
      // A call that could not be sent in time, because everything before it was blocked, is given
      // up too.
      const waitMs = Date.now() > dueMs + givenUpMs ? Infinity : await this.#try(work)
      if (waitMs === undefined || Date.now() + waitMs > dueMs + givenUpMs) {
        const doneMs = waitMs === undefined ? Date.now() : dueMs + givenUpMs
        this.samples.push({ kind, dueMs, doneMs, refused })
        break
      }
      refused++
      await sleep(waitMs)
    }
    const next = this.#waiting.shift()
    if (next === undefined) this.#underWay--
    else next()
  }

  #draw(number: number): [Kind, () => Promise<number | undefined>] {
    const { visits } = this.#options
    if (visits.length > 0 && number % 10 === 9) {
      const visit = visits[this.#visits++ % visits.length] as Visit
      return ['visit', () => this.#visit(visit)]
    }
    const file = this.#random.pick(this.#kept.filter(({ content }) => content !== undefined))
    const turn = number % 5
    if (turn === 0) return ['createFolder', () => this.#createFolder(`folder ${number}`)]
    if (turn === 1 || file === undefined) {
      const content = SeededNumbers.bytes(
        this.#options.seed + number,
        number % 50 === 1 ? largeBytes : smallBytes,
      )
      return ['upload', () => this.#upload(`file ${number}`, content)]
    }
    if (turn === 2) return ['list', () => this.#list(this.#folder)]
    return ['download', () => this.#download(file)]
  }

  /**
   * @returns how long to wait before the next attempt; undefined: it succeeded, or a retry is
   *   pointless.
   */
  async #try(work: () => Promise<number | undefined>): Promise<number | undefined> {
    try {
      return await work()
    } catch (error) {
      if (error instanceof WrongAnswer) {
        this.strange.push(error.message)
        return undefined
      }
      // The connection broke, or was refused: an ordinary program retries.
      return 100
    }
  }

  async #createFolder(name: string): Promise<number | undefined> {
    // A full folder is left; the next one is made in the root, like the first.
    const full = this.#folder === this.#options.root || this.#inFolder >= folderContentsMax
    const parentFolderId = full ? this.#options.root : this.#folder
    const answer = await this.#api('POST', '/contents/createFolder', { parentFolderId, folderName: name })
    if (refusedFor(answer) !== undefined) return refusedFor(answer)
    const { id } = dataOf(answer)
    this.#keep({ id, name, folder: parentFolderId, content: undefined })
    if (full) {
      this.#folder = id
      this.#inFolder = 0
    }
    return undefined
  }

  async #upload(name: string, content: Buffer): Promise<number | undefined> {
    const folder = this.#folder
    const form = multipart([
      { name: 'folderId', value: folder },
      { name: 'file', filename: name, content },
    ])
    const answer = await this.#send(`${this.#options.hosts.upload}/uploadfile`, {
      method: 'POST',
      body: form.body,
      type: form.contentType,
    })
    if (refusedFor(answer) !== undefined) return refusedFor(answer)
    const { id, md5 } = dataOf(answer)
    const sent = { md5: createHash('md5').update(content).digest('hex'), bytes: content.length }
    if (md5 !== sent.md5) throw new WrongAnswer(`an upload of ${sent.md5} answered ${md5}`)
    this.#keep({ id, name, folder, content: sent })
    return undefined
  }

  async #list(folder: string): Promise<number | undefined> {
    const expected = this.#kept.filter((kept) => kept.folder === folder)
    const answer = await this.#api('GET', `/web/contents/${folder}`)
    if (refusedFor(answer) !== undefined) return refusedFor(answer)
    const { children } = dataOf(answer)
    for (const { id, name } of expected)
      if (children[id]?.name !== name) this.lost.push(`${name} (${id}) is not in its folder ${folder}`)
    return undefined
  }

  async #download(file: KeptContent): Promise<number | undefined> {
    const answer = await this.#send(`${this.#options.hosts.download}/download/${file.id}/file`)
    if (refusedFor(answer) !== undefined) return refusedFor(answer)
    if (answer.code !== 200 && answer.code !== 404)
      throw new WrongAnswer(`a download was answered with ${answer.code} ${answer.body.toString()}`)
    const md5 = createHash('md5').update(answer.body).digest('hex')
    if (md5 !== file.content?.md5)
      this.lost.push(
        `${file.name} (${file.id}): ${answer.code}, ${answer.body.length} bytes of md5 ${md5}, sent ${file.content?.bytes} of ${file.content?.md5}`,
      )
    return undefined
  }

  async #visit({ id, password }: Visit): Promise<number | undefined> {
    const answer = await this.#api('GET', `/web/contents/${id}?password=${password}`, undefined, false)
    if (refusedFor(answer) !== undefined) return refusedFor(answer)
    if (dataOf(answer).id !== id) throw new WrongAnswer(`the folder ${id} answered as another`)
    return undefined
  }

  #keep(kept: KeptContent): void {
    this.#kept.push(kept)
    this.#inFolder++
  }

  #api(method: string, path: string, body?: unknown, known = true): Promise<Answer> {
    const text = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    return this.#send(this.#options.hosts.api + path, {
      method,
      known,
      ...(text === undefined ? {} : { body: text, type: 'application/json' }),
    })
  }

  #send(
    url: string,
    {
      method = 'GET',
      body,
      type,
      known = true,
    }: { method?: string; body?: Buffer; type?: string; known?: boolean } = {},
  ): Promise<Answer> {
    // One call in four uses a new connection, like a browser's new tab: those must get in, too.
    const fresh = this.#random.chance(0.25)
    return new Promise((resolve, reject) => {
      const call = http.request(url, {
        method,
        agent: fresh ? false : this.#agent,
        localAddress: this.#options.from,
        signal: AbortSignal.timeout(givenUpMs),
        headers: {
          ...(known ? { authorization: `Bearer ${this.#options.token}` } : {}),
          ...(fresh ? { connection: 'close' } : {}),
          ...(body === undefined ? {} : { 'content-length': body.length, 'content-type': type ?? '' }),
        },
      })
      call.once('error', reject)
      call.once('response', (response) => {
        response.toArray().then((chunks: Buffer[]) => {
          const after = Number(response.headers['retry-after'] ?? 0) * 1_000
          resolve({ code: response.statusCode ?? 0, body: Buffer.concat(chunks), retryAfterMs: after })
        }, reject)
      })
      call.end(body)
    })
  }
}

/** How long a refusal says to wait; undefined: it is no refusal. */
function refusedFor({ code, retryAfterMs }: Answer): number | undefined {
  return code === 429 || code === 503 ? Math.max(retryAfterMs, 100) : undefined
}

interface Data {
  id: string
  md5: string
  children: Record<string, { name: string }>
}

function dataOf({ code, body }: Answer): Data {
  const text = body.toString()
  const { status, data } = (text.startsWith('{') ? JSON.parse(text) : {}) as { status?: string; data?: Data }
  if (code !== 200 || status !== 'ok' || data === undefined)
    throw new WrongAnswer(`an ordinary call was answered with ${code} ${text.slice(0, 200)}`)
  return data
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)))
}
