/**
 * The drill of upgrades and rollbacks: the previous release, the code of today, and so on in turn,
 * on one data directory, under load. Clients repeat a call with its key until it is answered, as
 * the contract says. Nothing acknowledged may be lost, and no call may have two effects.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePorts } from '../../infra/servers/ports.ts'
import type { Answer } from '../acceptance/answer.ts'
import { hostsOf, Instances } from '../acceptance/instances.ts'
import { type Account, type CallOptions, md5, sleep, World } from '../acceptance/world.ts'
import { previousRelease, unpack } from '../support/earlier-code.ts'
import { Standalone } from '../support/standalone.ts'
import { Ledger } from './ledger.ts'
import { drawOperation } from './operations.ts'
import { SeededNumbers } from './seeded.ts'

const repository = fileURLToPath(new URL('../../', import.meta.url))
const clientCount = 6
/** Load on each release, ms. */
const loadMs = 4_000
const retryMs = 100
const patienceMs = 120_000

/** Previous, today, previous again (the rollback), today. */
const course = ['previous', 'today', 'previous', 'today'] as const

export async function upgradeTrial({
  from: previous = previousRelease(),
  seed,
  report,
}: {
  /** The commit that is the previous release. */
  from?: string | undefined
  seed: number
  report: (line: string) => void
}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-upgrade-'))
  const code = { previous: join(folder, 'previous'), today: repository }
  unpack(previous, code.previous)
  report(`  previous release    ${previous}`)
  const service = new Standalone(
    join(folder, 'data'),
    (await freePorts(4)) as [number, number, number, number],
    {},
    false,
  )
  try {
    return await drill(service, code, { seed, report })
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${service.output}`, { cause: error })
  } finally {
    await service.kill()
    await rm(folder, { recursive: true, force: true })
  }
}

async function drill(
  service: Standalone,
  code: Record<(typeof course)[number], string>,
  { seed, report }: { seed: number; report: (line: string) => void },
): Promise<string> {
  const random = new SeededNumbers(seed)
  const world = new RetryingWorld(hostsOf(service), new Instances())
  const clients: Client[] = []
  const lines: string[] = []
  await service.start({ code: code[course[0]] })
  for (let number = 0; number < clientCount; number++) {
    const account = await world.premium()
    const ledger = new Ledger(await account.folder({ name: `client ${number}` }))
    clients.push(new Client(account, ledger, new SeededNumbers(random.below(2 ** 31))))
  }
  for (const [at, release] of course.entries()) {
    const load = Promise.all(clients.map((client) => client.work()))
    // A fault of the load is thrown where the load is awaited.
    load.catch(() => {})
    await sleep(loadMs)
    const next = course[at + 1]
    if (next !== undefined) {
      const began = performance.now()
      assert.equal(await service.terminate(), 0, `the ${release} release did not end in order`)
      await service.start({ code: code[next] })
      const line = `  ${release} → ${next}`.padEnd(22)
      lines.push(`${line}${Math.round(performance.now() - began)} ms without service`)
      await sleep(loadMs / 4)
    }
    for (const client of clients) client.isOver = true
    await load
    for (const client of clients) assert.deepEqual(await client.differences(), [])
    report(`  under ${next ?? release}: ${sum(clients, 'acknowledged')} changes, all there`)
  }
  let files = 0
  for (const client of clients) files += await client.readAll(service.download)
  return [
    ...lines,
    `  acknowledged        ${sum(clients, 'acknowledged')} changes, 0 lost; ${world.repeated} calls were repeated`,
    `  read and compared   ${files} files`,
  ].join('\n')
}

class Client {
  readonly account: Account
  readonly ledger: Ledger
  readonly random: SeededNumbers
  acknowledged = 0
  isOver = false

  constructor(account: Account, ledger: Ledger, random: SeededNumbers) {
    this.account = account
    this.ledger = ledger
    this.random = random
  }

  async work(): Promise<void> {
    this.isOver = false
    while (!this.isOver) {
      const operation = drawOperation(this.random, this.account, this.ledger)
      operation.acknowledged((await operation.ask()).ok<unknown>())
      this.acknowledged++
      if (this.ledger.incomplete.size > 0) this.ledger.completeCopies(await this.#shown())
    }
  }

  async differences(): Promise<string[]> {
    return this.ledger.differences(await this.#shown())
  }

  /** @returns how many files; each has its md5 */
  async readAll(download: string): Promise<number> {
    const files = this.ledger.nodes('file')
    for (const { id, md5: expected } of files) {
      const { token, world } = this.account
      const { code, body } = await world.request('GET', `${download}/download/${id}/x`, { token })
      assert.deepEqual([code, md5(body)], [200, expected], `file ${id}`)
    }
    return files.length
  }

  async #shown() {
    return (await this.account.read(this.ledger.top.id, { maxdepth: 16 })).ok()
  }
}

/** Each change has a key, and is repeated until the service answers it. */
class RetryingWorld extends World {
  repeated = 0

  override async request(method: string, url: string, options: CallOptions = {}): Promise<Answer> {
    const key: Record<string, string> = method === 'GET' ? {} : { 'idempotency-key': randomUUID() }
    const deadline = Date.now() + patienceMs
    for (;;) {
      const asked = super.request(method, url, { ...options, headers: { ...key, ...options.headers } })
      const answer = await asked.catch((error: Error) => error)
      if (!(answer instanceof Error) && answer.code < 500) return answer
      const said = answer instanceof Error ? answer.message : answer.text
      assert.ok(Date.now() < deadline, `${method} ${url} was not answered in ${patienceMs} ms: ${said}`)
      this.repeated++
      await sleep(retryMs)
    }
  }
}

function sum(clients: readonly Client[], figure: 'acknowledged'): number {
  return clients.reduce((all, client) => all + client[figure], 0)
}
