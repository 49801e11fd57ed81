/**
 * Users that work on their accounts during faults. Each has two clients that make, describe,
 * remove, upload, list and download, one call after the other, through the frontends of all
 * regions. Their requests and answers are the history.
 *
 * A call without an answer is repeated with its Idempotency-Key, elsewhere, or left open at random.
 */
import { Answer, type Item } from '../../acceptance/answer.ts'
import { send } from '../../acceptance/http.ts'
import { multipart } from '../../acceptance/multipart.ts'
import { md5, sleep } from '../../acceptance/world.ts'
import { SeededNumbers } from '../../long/seeded.ts'
import type { ClusterRegion } from '../local-cluster.ts'
import type { Board, Change, FolderRead, History, MadeItem } from './history.ts'
import type { Person } from './people.ts'

export type Kind = 'change' | 'upload' | 'look' | 'download'

/** A successful call, to see who had no service and for how long. */
export interface Success {
  account: string
  /** Region of the frontend that was asked first. */
  by: string
  kind: Kind
  asked: number
  answered: number
}

export interface LoadOptions {
  people: readonly Person[]
  regions: readonly ClusterRegion[]
  history: History
  seed: number
  /** Every change is sent twice, at once, by two frontends. */
  doubled?: boolean
  /** Every call is repeated until it is answered, and none is left open. */
  insistent?: boolean
  /** For how long, ms. */
  insistForMs?: number
}

/** A call with all its repetitions, as its user sees it. */
export interface Wait {
  kind: Kind
  asked: number
  ms: number
}

type Front = 'api' | 'upload'
interface LoadState {
  person: Person
  /** The folder of this run. */
  folder: string
  boards: Board[]
  items: MadeItem[]
  links: Map<MadeItem, string>
}

const clientsEach = 2
const boardsEach = 2
/** A look reads one page of the contract's largest size, with what was made without an answer. */
const pageItems = 1_000
const itemsMax = 900
/** Between two calls of a client. */
const thinkMs = 120
/** The service's own deadline is 15 s. */
const patienceMs = 20_000
/** How long a call is repeated. */
const retryForMs = 20_000
const insistForMsDefault = 60_000
const retryPauseMs = 250

function isFull({ items }: LoadState): boolean {
  return items.filter(({ removed }) => removed === undefined).length >= itemsMax
}

export class Load {
  readonly successes: Success[] = []
  readonly waits: Wait[] = []
  repeated = 0
  /** Not answered, in spite of all repetitions. */
  failed = 0
  readonly #options: LoadOptions
  readonly #random: SeededNumbers
  readonly #places: LoadState[] = []
  #clients: Promise<void>[] = []
  #ending = false
  #number = 0

  constructor(options: LoadOptions) {
    this.#options = options
    this.#random = new SeededNumbers(options.seed)
  }

  /** Every user has a folder of this run and boards in it. */
  async prepare(): Promise<void> {
    await Promise.all(
      this.#options.people.map(async (person) => {
        const make = async (parentFolderId: string, folderName: string) =>
          (await this.#insist(person, 'POST', '/contents/createFolder', { parentFolderId, folderName })).id
        const folder = await make(person.root, `run ${this.#options.seed}`)
        const place: LoadState = { person, folder, boards: [], items: [], links: new Map() }
        for (let at = 0; at < boardsEach; at++) {
          const name = `board ${at}`
          const board = { name, account: person.id, id: await make(folder, name), writes: [] }
          place.boards.push(board)
          this.#options.history.boards.push(board)
        }
        this.#places.push(place)
      }),
    )
  }

  start(): void {
    for (const place of this.#places)
      for (let client = 0; client < clientsEach; client++) {
        const work = this.#work(place, client)
        // `stop` throws it.
        work.catch(() => {})
        this.#clients.push(work)
      }
  }

  /** Resolves when the last call of every user was answered or given up. */
  async stop(): Promise<void> {
    this.#ending = true
    await Promise.all(this.#clients)
  }

  /**
   * Reads everything once more, through each region's frontend; reads the files, or some of them.
   */
  async lookAtRest({ filesMax }: { filesMax: number }): Promise<void> {
    await Promise.all(this.#places.map((place) => this.#lookAtRest(place, filesMax)))
  }

  async #lookAtRest(place: LoadState, filesMax: number): Promise<void> {
    for (const region of this.#options.regions) await this.#lookUntilSeen(place, region)
    const files = place.items.filter(
      ({ file, made, removed }) => file !== undefined && made.answered < Infinity && removed === undefined,
    )
    const step = Math.max(1, Math.ceil(files.length / filesMax))
    for (let at = 0; at < files.length; at += step) await this.#readAtRest(place, files[at] as MadeItem)
  }

  // ---- one client

  async #work(place: LoadState, client: number): Promise<void> {
    const random = new SeededNumbers(this.#random.below(2 ** 31))
    // One works from home, the other from abroad: no answer may depend on the frontend's region.
    const home = this.#options.regions.findIndex(({ code }) => code === place.person.region)
    const at = home + client
    while (!this.#ending) {
      const drawn = random.next()
      const name = `${client}-${this.#number++}`
      if (drawn < 0.45 && isFull(place)) await this.#remove(place, { at, random })
      else if (drawn < 0.25) await this.#makeFolder(place, { name: `folder ${name}`, at, random })
      else if (drawn < 0.45) await this.#upload(place, { name: `file ${name}.bin`, at, random })
      else if (drawn < 0.65) await this.#describe(place, { value: `text ${name}`, at, random })
      else if (drawn < 0.75) await this.#remove(place, { at, random })
      else if (drawn < 0.92)
        await this.#reading('look', (attempt) => this.#look(place, this.#regionAt(at + attempt)))
      else await this.#download(place, { at, random })
      await sleep(thinkMs)
    }
  }

  async #makeFolder(place: LoadState, { name, at, random }: Call & { name: string }): Promise<void> {
    const item = this.#newItem(place, name, undefined)
    const json = { parentFolderId: place.folder, folderName: name }
    const answer = await this.#change(place, {
      front: 'api',
      method: 'POST',
      path: '/contents/createFolder',
      json,
      change: item.made,
      at,
      random,
    })
    if (answer !== undefined) item.id = answer.id
  }

  async #upload(place: LoadState, { name, at, random }: Call & { name: string }): Promise<void> {
    const content = SeededNumbers.bytes(
      random.below(2 ** 31),
      500 + random.below(random.chance(0.2) ? 600_000 : 40_000),
    )
    const item = this.#newItem(place, name, { md5: md5(content), size: content.length })
    const form = multipart([
      { name: 'folderId', value: place.folder },
      { name: 'file', filename: name, content },
    ])
    const answer = await this.#change(place, {
      front: 'upload',
      method: 'POST',
      path: '/uploadfile',
      form,
      change: item.made,
      at,
      random,
      kind: 'upload',
    })
    if (answer === undefined) return
    item.id = answer.id
    place.links.set(item, answer.link)
  }

  async #describe(place: LoadState, { value, at, random }: Call & { value: string }): Promise<void> {
    const board = random.pick(place.boards)
    const write = { value, asked: performance.now(), answered: Infinity }
    board.writes.push(write)
    const json = { attribute: 'description', attributeValue: value }
    await this.#change(place, {
      front: 'api',
      method: 'PUT',
      path: `/contents/${board.id}/update`,
      json,
      change: write,
      at,
      random,
    })
  }

  async #remove(place: LoadState, { at, random }: Call): Promise<void> {
    const [item] = place.items.filter(({ id, removed }) => id !== undefined && removed === undefined)
    if (item === undefined) return
    item.removed = { asked: performance.now(), answered: Infinity }
    const json = { contentsId: item.id }
    await this.#change(place, {
      front: 'api',
      method: 'DELETE',
      path: '/contents',
      json,
      change: item.removed,
      at,
      random,
    })
  }

  #newItem(place: LoadState, name: string, file: MadeItem['file']): MadeItem {
    const item: MadeItem = {
      name,
      account: place.person.id,
      made: { asked: performance.now(), answered: Infinity },
      file,
      id: undefined,
      removed: undefined,
    }
    place.items.push(item)
    this.#options.history.items.push(item)
    return item
  }

  /** Undefined: the outcome is unknown. The change records when it was acknowledged. */
  async #change(
    place: LoadState,
    { change, kind = 'change', at, random, ...request }: ChangeCall,
  ): Promise<Item | undefined> {
    const { history, doubled = false, insistent = false } = this.#options
    const { insistForMs = insistForMsDefault } = this.#options
    const key = `key-${random.below(2 ** 31)}-${random.below(2 ** 31)}-${this.#options.seed}`
    const again = random.chance(0.5)
    change.asked = performance.now()
    for (let attempt = 0; ; attempt++) {
      const asking = [this.#ask(place.person, { ...request, at: at + attempt, key })]
      if (doubled) asking.push(this.#ask(place.person, { ...request, at: at + attempt + 1, key }))
      const answers = (await Promise.all(asking)).filter((answer) => answer !== undefined)
      const reported = answers
        .map((answer) => (answer.code === 200 ? answer.ok() : undefined))
        .filter((item) => item !== undefined)
      const [first, second] = reported
      if (second !== undefined && second.id !== first?.id)
        history.doubled.push(`${key}: answered with ${first?.id} and with ${second.id}`)
      if (first !== undefined) {
        change.answered = performance.now()
        this.#succeeded(place, { kind, by: this.#regionAt(at), ...change })
        this.waits.push({ kind, asked: change.asked, ms: change.answered - change.asked })
        return first
      }
      const refused = answers.find(({ code }) => code < 500 && code !== 429)
      if (refused !== undefined) {
        history.refused.push(`${request.method} ${request.path}: ${refused.code} ${refused.text}`)
        return undefined
      }
      const goesOn = insistent
        ? performance.now() - change.asked < insistForMs
        : again && !this.#ending && performance.now() - change.asked <= retryForMs
      if (!goesOn) {
        this.failed++
        return undefined
      }
      this.repeated++
      await sleep(retryPauseMs)
    }
  }

  /** Undefined: no answer. */
  async #ask(
    person: Person,
    { front, method, path, json, form, at, key }: Request,
  ): Promise<Answer | undefined> {
    const host = this.#regionAt(at)[front]
    const body = form?.body ?? JSON.stringify(json)
    try {
      const received = await send(host + path, {
        method,
        headers: {
          authorization: `Bearer ${person.token}`,
          'content-type': form?.contentType ?? 'application/json',
          'idempotency-key': key,
        },
        body,
        timeoutMs: patienceMs,
      })
      return new Answer(`${method} ${host}${path}`, received)
    } catch {
      return undefined
    }
  }

  #regionAt(at: number): ClusterRegion {
    const { regions } = this.#options
    return regions[at % regions.length] as ClusterRegion
  }

  #succeeded(
    place: LoadState,
    { kind, by, asked, answered }: Change & { kind: Kind; by: ClusterRegion },
  ): void {
    this.successes.push({ account: place.person.id, kind, by: by.code, asked, answered })
  }

  // ---- reading

  async #look(place: LoadState, by: ClusterRegion, last = false): Promise<boolean> {
    const asked = performance.now()
    const { token, id: account } = place.person
    const received = await send(`${by.api}/contents/${place.folder}?pageSize=${pageItems}`, {
      headers: { authorization: `Bearer ${token}` },
      timeoutMs: patienceMs,
    }).catch(() => undefined)
    const answered = performance.now()
    if (received === undefined || received.code >= 500 || received.code === 429) return false
    const answer = new Answer(`GET ${place.folder}`, received)
    if (received.code !== 200) {
      this.#options.history.refused.push(`a look was answered with ${received.code} ${answer.text}`)
      return true
    }
    const { children, metadata } = answer.listing()
    if (metadata.totalCount !== children.length) throw new Error('the folder of a run outgrew one page')
    const items = children.map(({ id, name, description = '', md5: digest, size, type }) => ({
      id,
      name,
      description,
      md5: type === 'file' ? digest : undefined,
      size: type === 'file' ? size : undefined,
    }))
    const look: FolderRead = { account, asked, answered, last, items }
    this.#options.history.looks.push(look)
    this.#succeeded(place, { kind: 'look', by, asked, answered })
    return true
  }

  async #lookUntilSeen(place: LoadState, by: ClusterRegion): Promise<void> {
    const until = performance.now() + 60_000
    while (!(await this.#look(place, by, true))) {
      if (performance.now() > until) throw new Error(`${place.person.id} cannot be read when all is over`)
      await sleep(retryPauseMs)
    }
  }

  async #download(place: LoadState, { at, random }: Call): Promise<void> {
    const by = this.#regionAt(at)
    // A recent upload of the other region may not have arrived yet: users at home do not depend on
    // it.
    const atHome = by.code === place.person.region
    const files = [...place.links]
      .filter(([{ removed }, link]) => removed === undefined && (!atHome || link.startsWith(by.download)))
      .map(([item]) => item)
    if (files.length === 0) return
    const item = random.pick(files)
    await this.#reading('download', (attempt) =>
      this.#read(place, { item, by: this.#regionAt(at + attempt) }),
    )
  }

  /** Once, or again by another frontend until there is an answer. */
  async #reading(kind: Kind, read: (attempt: number) => Promise<boolean>): Promise<void> {
    const asked = performance.now()
    for (let attempt = 0; ; attempt++) {
      if (await read(attempt)) {
        this.waits.push({ kind, asked, ms: performance.now() - asked })
        return
      }
      if (this.#options.insistent !== true) return
      if (performance.now() - asked > (this.#options.insistForMs ?? insistForMsDefault)) {
        this.failed++
        return
      }
      this.repeated++
      await sleep(retryPauseMs)
    }
  }

  /** @returns whether there was an answer */
  async #read(place: LoadState, { item, by }: { item: MadeItem; by: ClusterRegion }): Promise<boolean> {
    const { bytes, refused } = this.#options.history
    const asked = performance.now()
    const { pathname, search } = new URL(place.links.get(item) as string)
    const received = await send(by.download + pathname + search, { timeoutMs: patienceMs }).catch(
      () => undefined,
    )
    if (received === undefined || received.code >= 500 || received.code === 429) return false
    if (item.removed !== undefined) return true
    if (received.code !== 200) refused.push(`${item.name}: its download was answered with ${received.code}`)
    else if (md5(received.body) === item.file?.md5) {
      bytes.right++
      this.#succeeded(place, { kind: 'download', by, asked, answered: performance.now() })
    } else bytes.wrong.push(`${item.name}: ${received.body.length} bytes of md5 ${md5(received.body)}`)
    return true
  }

  async #readAtRest(place: LoadState, item: MadeItem): Promise<void> {
    const until = performance.now() + 60_000
    const by = this.#regionAt(item.name.length)
    while (!(await this.#read(place, { item, by }))) {
      if (performance.now() > until) throw new Error(`${item.name} cannot be downloaded when all is over`)
      await sleep(retryPauseMs)
    }
  }

  async #insist(person: Person, method: string, path: string, json: object): Promise<Item> {
    const key = `${path} ${JSON.stringify(json)}`.slice(0, 200)
    const until = performance.now() + 60_000
    for (let at = 0; ; at++) {
      const answer = await this.#ask(person, { front: 'api', method, path, json, at, key })
      if (answer?.code === 200) return answer.ok()
      if (performance.now() > until) throw new Error(`${method} ${path}: ${answer?.text ?? 'no answer'}`)
      await sleep(retryPauseMs)
    }
  }
}

interface Call {
  /** The index of the frontend; it is advanced with every retry. */
  at: number
  random: SeededNumbers
}

interface Request {
  front: Front
  method: string
  path: string
  json?: object
  form?: { contentType: string; body: Buffer }
  at: number
  key: string
}

interface ChangeCall extends Call, Omit<Request, 'at' | 'key'> {
  change: Change
  kind?: Kind
}
