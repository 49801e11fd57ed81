/**
 * kill -9 of the real service under load, repeatedly on one data directory. After each restart
 * every acknowledged thing is looked for, and every unanswered one must have happened whole or not
 * at all. At the end no unreferenced byte may be left.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Answer, Item } from '../acceptance/answer.ts'
import { hostsOf, Instances } from '../acceptance/instances.ts'
import { type Account, eventually, filePart, md5, World } from '../acceptance/world.ts'
import { Standalone } from '../support/standalone.ts'
import { Ledger, type Node } from './ledger.ts'
import { drawOperation, type Operation } from './operations.ts'
import { SeededNumbers } from './seeded.ts'

const accountCount = 3
const clientsPerAccount = 3
/** Load of one round, milliseconds: from a few calls to a few thousand. */
const loadMs = { least: 30, most: 1_500 }
/** Older things that are checked again after each restart, per client. */
const sampled = 12

export interface CrashOptions {
  rounds: number
  seed: number
  /** Share of the rounds that end by SIGTERM. */
  drains?: number
  /** Called after every round. */
  report?: (line: string) => void
}

export interface CrashFigures {
  rounds: number
  kills: number
  drains: number
  acknowledged: number
  unknown: { happened: number; absent: number; retried: number }
  accounts: number
  filesRead: number
  bytesRead: number
  restartMs: { median: number; most: number }
  liveBytes: number
  orphanBytes: number
}

/**
 * @throws at the first lost, half or unaccountable thing, with its round and seed; the data
 *   directory then stays for inspection.
 */
export async function crashRounds(options: CrashOptions): Promise<CrashFigures> {
  const dataDir = await mkdtemp(join(tmpdir(), 'holdfast-crash-'))
  const service = await Standalone.start({ dataDir })
  const trial = new Trial(service, options)
  try {
    await trial.prepare()
    for (let round = 1; round <= options.rounds; round++) {
      await trial.round()
      options.report?.(`round ${round}: ${trial.summary()}`)
    }
    await trial.finish()
  } catch (error) {
    const place = `seed ${options.seed}, after round ${trial.figures.rounds}, data in ${dataDir}`
    throw new Error(`${place}: ${(error as Error).message}\n${service.output}`, { cause: error })
  } finally {
    await service.kill()
  }
  await rm(dataDir, { recursive: true, force: true })
  return trial.figures
}

/** A user that works below its own folder, one call after the other. */
interface Client {
  account: Account
  ledger: Ledger
  random: SeededNumbers
  unanswered: Operation | undefined
}

/** An account that the load makes: by a call, or by an upload without a token. */
interface Arrival {
  /** The uploaded content; undefined: only the account. */
  content: Buffer | undefined
  ask: () => Promise<Answer>
}

interface Newcomer {
  token: string
  file: Item | undefined
}

class Trial {
  readonly figures: CrashFigures = {
    rounds: 0,
    kills: 0,
    drains: 0,
    acknowledged: 0,
    unknown: { happened: 0, absent: 0, retried: 0 },
    accounts: 0,
    filesRead: 0,
    bytesRead: 0,
    restartMs: { median: 0, most: 0 },
    liveBytes: 0,
    orphanBytes: 0,
  }
  readonly #service: Standalone
  readonly #world: World
  readonly #random: SeededNumbers
  readonly #drains: number
  readonly #accounts: Account[] = []
  readonly #clients: Client[] = []
  readonly #newcomers: Newcomer[] = []
  /** Sizes of unanswered tokenless uploads: their accounts, if they exist, are unknown. */
  readonly #ownerless: number[] = []
  readonly #restartMs: number[] = []
  #unansweredArrival: Arrival | undefined
  #faults: string[] = []
  #dying = false

  constructor(service: Standalone, { seed, drains = 0.1 }: CrashOptions) {
    this.#service = service
    this.#drains = drains
    this.#world = new World(hostsOf(service), new Instances())
    this.#random = new SeededNumbers(seed)
  }

  async prepare(): Promise<void> {
    for (let number = 0; number < accountCount; number++) {
      const account = await this.#world.premium()
      this.#accounts.push(account)
      for (let client = 0; client < clientsPerAccount; client++) {
        const ledger = new Ledger(await account.folder({ name: `client ${client}` }))
        this.#clients.push({ account, ledger, random: this.#draw(), unanswered: undefined })
      }
    }
  }

  async round(): Promise<void> {
    this.#dying = false
    const load = [...this.#clients.map((client) => this.#work(client)), this.#arrive(this.#draw())].map(
      (working) => working.catch((error: Error) => this.#faults.push(error.message)),
    )
    await new Promise((over) =>
      setTimeout(over, loadMs.least + this.#random.below(loadMs.most - loadMs.least)),
    )
    await this.#end()
    await Promise.all(load)
    const started = performance.now()
    await this.#service.start()
    this.#restartMs.push(performance.now() - started)
    await this.#settle()
    this.figures.rounds++
    if (this.#faults.length > 0) throw new Error(this.#faults.slice(0, 20).join('\n'))
  }

  summary(): string {
    const { acknowledged, unknown, filesRead } = this.figures
    return `${acknowledged} acknowledged, ${unknown.happened} + ${unknown.absent} unanswered happened or not, ${unknown.retried} repeated, ${filesRead} files read`
  }

  /** After the last round: statistics, every file, and the bytes on disk. */
  async finish(): Promise<void> {
    for (const client of this.#clients)
      await this.#readFiles(client.ledger.nodes('file'), client.account.token)
    await this.#collect()
    const sorted = this.#restartMs.toSorted((a, b) => a - b)
    this.figures.restartMs = {
      median: Math.round(sorted[sorted.length >> 1] ?? 0),
      most: Math.round(sorted.at(-1) ?? 0),
    }
    this.figures.accounts = this.#accounts.length + this.#newcomers.length
    if (this.#faults.length > 0) throw new Error(this.#faults.slice(0, 20).join('\n'))
  }

  /** Mostly by a kill, sometimes as an operator does; then it must end cleanly. */
  async #end(): Promise<void> {
    this.#dying = true
    if (!this.#random.chance(this.#drains)) {
      this.figures.kills++
      return this.#service.kill()
    }
    this.figures.drains++
    const code = await this.#service.terminate()
    if (code !== 0) this.#faults.push(`SIGTERM ended it with ${code}:\n${this.#service.output}`)
  }

  // ---- load

  async #work(client: Client): Promise<void> {
    while (!this.#dying) {
      const operation = drawOperation(client.random, client.account, client.ledger)
      const answer = await this.#answerOf(operation.name, operation.ask)
      if (answer === undefined) {
        client.unanswered = operation
        return
      }
      operation.acknowledged(answer.ok<unknown>())
      this.figures.acknowledged++
      if (client.ledger.incomplete.size > 0) {
        const shown = await this.#answerOf('read', () =>
          client.account.read(client.ledger.top.id, { maxdepth: 16 }),
        )
        if (shown === undefined) return
        client.ledger.completeCopies(shown.ok())
      }
    }
  }

  /** New guests, one after the other, some by an upload without a token. */
  async #arrive(random: SeededNumbers): Promise<void> {
    while (!this.#dying) {
      const arrival = this.#drawArrival(random)
      const answer = await this.#answerOf('arrive', arrival.ask)
      if (answer === undefined) {
        this.#unansweredArrival = arrival
        return
      }
      this.figures.acknowledged++
      this.#welcome(arrival, answer)
    }
  }

  #drawArrival(random: SeededNumbers): Arrival {
    if (random.chance(0.4)) return { content: undefined, ask: () => this.#world.call('POST', '/accounts') }
    const content = SeededNumbers.bytes(random.below(2_000_000_000), 1_000 + random.below(60_000))
    const headers = { 'idempotency-key': `arrival-${random.below(2 ** 31)}-${random.below(2 ** 31)}` }
    return { content, ask: () => this.#world.uploadForm([filePart({ content })], { headers }) }
  }

  #welcome(arrival: Arrival, answer: Answer): void {
    const data = answer.ok<Item & { token: string }>()
    this.#newcomers.push(
      arrival.content === undefined
        ? { token: data.token, file: undefined }
        : { token: data.guestToken, file: { ...data, md5: md5(arrival.content) } },
    )
  }

  /**
   * Undefined: no answer, so the outcome is unknown. A refusal is a fault: nothing here is
   * forbidden.
   */
  async #answerOf(name: string, ask: () => Promise<Answer>): Promise<Answer | undefined> {
    const answer = await ask().catch((error: NodeJS.ErrnoException) => {
      if (!this.#dying) this.#faults.push(`${name}: ${error.message} while the service was up`)
      return undefined
    })
    if (answer === undefined) return undefined
    if (answer.code === 200) return answer
    if (answer.code < 500 || !this.#dying)
      this.#faults.push(`${name} was refused: ${answer.code} ${answer.text}`)
    return undefined
  }

  // ---- what is true after the restart

  async #settle(): Promise<void> {
    await this.#settleArrival()
    await Promise.all(this.#clients.map((client) => this.#settleClient(client)))
    await Promise.all(this.#accounts.map((account) => this.#checkStatistics(account)))
    await Promise.all(this.#sample(this.#newcomers).map((newcomer) => this.#checkNewcomer(newcomer)))
  }

  /** Repeated with its key a tokenless upload is the same guest; otherwise it may exist unknown. */
  async #settleArrival(): Promise<void> {
    const arrival = this.#unansweredArrival
    this.#unansweredArrival = undefined
    if (arrival?.content === undefined) return
    if (this.#random.chance(0.3)) {
      this.#ownerless.push(arrival.content.length)
      return
    }
    this.#welcome(arrival, await arrival.ask())
    this.figures.unknown.retried++
  }

  async #settleClient(client: Client): Promise<void> {
    const { account, ledger, unanswered } = client
    const read = async () => (await account.read(ledger.top.id, { maxdepth: 16 })).ok()
    let shown = await read()
    ledger.completeCopies(shown)
    if (unanswered !== undefined) {
      await this.#settleUnanswered(client, unanswered, shown)
      shown = await read()
    }
    this.#faults.push(...ledger.differences(shown))
    await this.#readFiles(this.#sample(ledger.nodes('file')), account.token)
    await this.#checkLinks(this.#sample(ledger.nodes('file').filter((node) => node.links.size > 0)))
    for (const id of ledger.deleted.slice(-sampled)) {
      const { code } = await account.read(id)
      if (code !== 404) this.#faults.push(`${id} was deleted and answers ${code}`)
    }
  }

  /** Repeated with its key an upload has one effect; anything else is looked for. */
  async #settleUnanswered(client: Client, operation: Operation, shown: Item): Promise<void> {
    client.unanswered = undefined
    if (operation.name === 'upload' && client.random.chance(0.5)) {
      operation.acknowledged((await operation.ask()).ok<unknown>())
      this.figures.unknown.retried++
      return
    }
    if (operation.unknown(shown)) this.figures.unknown.happened++
    else this.figures.unknown.absent++
  }

  async #checkStatistics(account: Account): Promise<void> {
    const nodes = this.#clients
      .filter((client) => client.account === account)
      .flatMap(({ ledger }) => ledger.nodes())
    const files = nodes.filter((node) => node.type === 'file')
    const expected = [files.length, nodes.length - files.length, sumOfSizes(files)]
    const { fileCount, folderCount, storage } = (await account.details()).statsCurrent
    if (String([fileCount, folderCount, storage]) !== String(expected))
      this.#faults.push(
        `statistics of ${account.id}: ${[fileCount, folderCount, storage]}, expected ${expected}`,
      )
  }

  async #checkNewcomer({ token, file }: Newcomer): Promise<void> {
    const who = (await this.#world.call('GET', '/accounts/getid', { token })).ok()
    const details = (await this.#world.call('GET', `/accounts/${who.id}`, { token })).ok<{
      statsCurrent: { fileCount: number; storage: number }
    }>()
    const expected = file === undefined ? [0, 0] : [1, file.size]
    if (String([details.statsCurrent.fileCount, details.statsCurrent.storage]) !== String(expected))
      this.#faults.push(`the newcomer ${who.id} has other statistics`)
    if (file !== undefined) await this.#readFile(file.id, file.md5, token)
  }

  async #readFiles(files: readonly Pick<Node, 'id' | 'md5'>[], token: string): Promise<void> {
    for (const file of files) await this.#readFile(file.id, file.md5, token)
  }

  async #readFile(id: string, expected: string | undefined, token: string): Promise<void> {
    const answer = await this.#world.request('GET', `${this.#service.download}/download/${id}/x`, { token })
    this.figures.filesRead++
    this.figures.bytesRead += answer.body.length
    if (answer.code !== 200 || md5(answer.body) !== expected)
      this.#faults.push(
        `file ${id}: ${answer.code} and ${answer.body.length} bytes of md5 ${md5(answer.body)}, acknowledged ${expected}`,
      )
  }

  async #checkLinks(files: readonly Node[]): Promise<void> {
    for (const file of files)
      for (const link of file.links.values()) {
        const answer = await this.#world.request('GET', link)
        if (answer.code !== 200 || md5(answer.body) !== file.md5)
          this.#faults.push(`direct link of ${file.id} answers ${answer.code}`)
      }
  }

  /** Live bytes are those of the distinct referenced contents, and none besides. */
  async #collect(): Promise<void> {
    const sizeByMd5 = new Map<string, number>()
    const refer = (file: { md5?: string; size?: number }) => sizeByMd5.set(file.md5 ?? '', file.size ?? 0)
    for (const { ledger } of this.#clients) ledger.nodes('file').forEach(refer)
    for (const { file } of this.#newcomers) if (file !== undefined) refer(file)
    const referred = [...sizeByMd5.values()].reduce((sum, size) => sum + size, 0)
    await eventually(async () => {
      const { liveBytes } = (await this.#world.admin('POST', '/admin/collect', { graceSeconds: 0 })).ok<{
        liveBytes: number
      }>()
      this.figures.liveBytes = liveBytes
      this.figures.orphanBytes = orphanBytes(liveBytes - referred, this.#ownerless)
      assert.equal(this.figures.orphanBytes, 0, `${liveBytes} live bytes, ${referred} referred to`)
    }, 30_000)
  }

  #sample<T>(all: readonly T[]): T[] {
    const newest = all.slice(-sampled)
    return [
      ...newest,
      ...Array.from({ length: Math.min(sampled, all.length - newest.length) }, () => this.#random.pick(all)),
    ]
  }

  #draw(): SeededNumbers {
    return new SeededNumbers(this.#random.below(2 ** 31))
  }
}

function sumOfSizes(files: readonly Node[]): number {
  return files.reduce((sum, file) => sum + (file.size ?? 0), 0)
}

/**
 * The rest of `surplus` that no set of uploads without an owner explains; negative: bytes are
 * missing.
 */
function orphanBytes(surplus: number, ownerless: readonly number[]): number {
  const explained = new Set([0])
  for (const size of ownerless)
    for (const sum of [...explained]) if (sum + size <= surplus) explained.add(sum + size)
  return surplus - Math.max(...[...explained].filter((sum) => sum <= Math.max(surplus, 0)))
}
