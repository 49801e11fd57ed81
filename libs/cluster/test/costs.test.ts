/**
 * What an operation costs a cluster's database, counted at the driver. Each test states the maximum
 * of its operation; one statement more is a regression. Counters of share codes are drawn thousands
 * at a time and are not counted.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { RoutedAccountClient } from '@holdfast/accounts'
import { plainClient } from '@holdfast/accounts/testing'
import { AccountHost } from '@holdfast/actor-runtime'
import { plainHost } from '@holdfast/actor-runtime/testing'
import { MemoryBus } from '@holdfast/bus'
import { createAccountStates } from '@holdfast/content-tree'
import { plainSettings } from '@holdfast/content-tree/testing'
import { CassandraMetadataStore } from '@holdfast/journal-cassandra'
import { plainConnection, plainStore } from '@holdfast/journal-cassandra/testing'
import { hex, Keyring, mintRequestId } from '@holdfast/kernel'
import type { AccountOperation, AccountReply, Item } from '@holdfast/wire'
import cassandra from 'cassandra-driver'
import t, { type Test } from 'tap'
import { startCassandra } from '../../../infra/servers/cassandra.ts'

const address = '127.0.0.22'
const server = await startCassandra({
  directory: t.testdir(),
  host: address,
  seeds: [address],
  dataCentre: 'eu-par',
})
t.teardown(() => server.stop('SIGKILL'))

/** Statements of an operation. */
interface Cost {
  /** Lightweight transactions. */
  conditional: number
  serialReads: number
  reads: number
  /** Plain writes, a batch is one. */
  writes: number
  /** Rows in those writes. */
  rows: number
}

type Query = string | { query: string }

class Meter {
  #cost: Cost = { conditional: 0, serialReads: 0, reads: 0, writes: 0, rows: 0 }
  #underWay = 0
  #queries: string[] = []

  constructor(t: Test) {
    const client = cassandra.Client.prototype
    const { execute, batch } = client
    const counted = this.#counted.bind(this)
    client.execute = function (this: cassandra.Client, query: string, ...rest: unknown[]) {
      const run = execute as (...all: unknown[]) => Promise<cassandra.types.ResultSet>
      return counted([query], rest[1] as cassandra.QueryOptions, run.call(this, query, ...rest))
    } as typeof execute
    client.batch = function (this: cassandra.Client, queries: Query[], ...rest: unknown[]) {
      const run = batch as (...all: unknown[]) => Promise<cassandra.types.ResultSet>
      const texts = queries.map((query) => (typeof query === 'string' ? query : query.query))
      return counted(texts, {}, run.call(this, queries, ...rest))
    } as typeof batch
    t.teardown(() => Object.assign(client, { execute, batch }))
  }

  async #counted<T>(queries: string[], options: cassandra.QueryOptions | undefined, work: Promise<T>) {
    if (!queries.some((query) => / (counters|schema_state|system\.\w+)\b/.test(query)))
      this.#count(queries, options?.consistency === cassandra.types.consistencies.localSerial)
    this.#underWay++
    try {
      return await work
    } finally {
      this.#underWay--
    }
  }

  #count(queries: string[], serial: boolean): void {
    this.#queries.push(queries.join('; '))
    if (queries.some((query) => / IF /.test(query))) this.#cost.conditional++
    else if (serial) this.#cost.serialReads++
    else if (queries[0]?.startsWith('SELECT')) this.#cost.reads++
    else {
      this.#cost.writes++
      this.#cost.rows += queries.length
    }
  }

  /** Resolves when nothing has been running for some turns of the loop. */
  async rest(): Promise<void> {
    for (let quiet = 0; quiet < 5; quiet++) {
      if (this.#underWay > 0) quiet = 0
      await delay(10)
    }
  }

  /** Counts the work until it ends; deferred work is not counted. */
  async of(work: () => Promise<unknown>): Promise<Cost> {
    await this.rest()
    this.#cost = { conditional: 0, serialReads: 0, reads: 0, writes: 0, rows: 0 }
    this.#queries = []
    await work()
    return this.#cost
  }

  /** The statements, and how often. */
  get queries(): Record<string, number> {
    return Object.fromEntries(
      Map.groupBy(this.#queries, String)
        .entries()
        .map(([query, all]) => [query, all.length]),
    )
  }
}

/** Passes when nothing is above its bound; unnamed statements may not occur. */
function atMost(t: Test, name: string, cost: Cost, bounds: Partial<Cost>, queries: Record<string, number>) {
  const kinds = Object.keys(cost) as (keyof Cost)[]
  const over = kinds.filter((kind) => cost[kind] > (bounds[kind] ?? 0))
  const details = over.length > 0 ? { cost, bounds, queries } : {}
  t.strictSame(over, [], `${name}: ${JSON.stringify(cost)}`, details)
}

const ring = new Keyring(Buffer.alloc(32, 7))

async function world(t: Test) {
  const meter = new Meter(t)
  const store = await CassandraMetadataStore.open({
    ...plainConnection,
    ...plainStore,
    contactPoints: [address],
    keyspace: 'holdfast',
  })
  t.teardown(() => store.close())
  const bus = new MemoryBus()
  const states = createAccountStates(plainSettings(ring))
  let hosts = 0
  const start = async () => {
    const hostId = `host-${++hosts}`
    const host = new AccountHost({
      ...plainHost,
      hostId,
      bus,
      journal: store.journals,
      lookups: store.lookups,
      states,
      mailer: { send: async () => {} },
      sweepMs: 3_600_000,
      // No background work: neither reads of lookup rows nor checkpoints.
      bounds: { relistMs: 3_600_000, idleMs: 3_600_000, checkpointBytesMin: 256 * 1024 * 1024 },
    })
    host.start()
    // What a start looks for is over before anything is counted.
    await Promise.all([host.wakeListed(), host.sweep()])
    await meter.rest()
    return { hostId, host }
  }
  let current = await start()
  t.teardown(() => current.host.close({ drainMs: 0 }))
  const client = new RoutedAccountClient({
    ...plainClient,
    bus,
    hostOf: () => current.hostId,
  })
  const account = ring.ids.account('eu-par')
  const ask = async (operation: AccountOperation, of: string = account): Promise<AccountReply> => {
    const caller = { who: { $case: 'operator' as const, value: {} } }
    const requestId = mintRequestId(Date.now())
    const reply = await client.call({
      accountId: of,
      requestId,
      caller,
      clientNetwork: undefined,
      clientRequest: undefined,
      traceparent: undefined,
      tierNeeded: '',
      operation,
    })
    if (reply.result?.$case === 'refusal') throw new Error(reply.result.value.status)
    return reply
  }
  const itemOf = ({ result }: AccountReply): Item => {
    if (result?.$case !== 'content' || result.value.item === undefined) throw new Error('no content')
    return result.value.item
  }
  return {
    meter,
    ask,
    item: async (operation: AccountOperation) => itemOf(await ask(operation)),
    askOfNobody: () =>
      t.rejects(ask({ $case: 'getAccount', value: {} }, ring.ids.account('eu-par')), {
        message: 'error-notFound',
      }),
    journals: store.journals,
    lookups: store.lookups,
    account,
    /** Every account leaves memory cleanly, as after a quiet period. */
    async sleep() {
      await current.host.close({ drainMs: 10_000 })
    },
    async wake() {
      current = await start()
    },
  }
}

let blobs = 0
function addFile(more: { folderId?: string; createAccount?: { tokenKeyId: number } }): AccountOperation {
  const id = Buffer.alloc(48)
  id.writeUInt32BE(++blobs, 0)
  const blob = { id, incarnation: Buffer.alloc(16, 1), size: 1000, crc32: 1, placementGroup: 1 }
  const value = { name: 'a.txt', mimetype: 'text/plain', modTime: undefined, blob }
  return {
    $case: 'addFile',
    value: {
      ...value,
      folderId: undefined,
      createAccount: undefined,
      ...more,
    },
  } as AccountOperation
}

function createFolder(parentFolderId: string): AccountOperation {
  return {
    $case: 'createFolder',
    value: { parentFolderId, name: undefined, isPublic: undefined, modTime: undefined },
  }
}

let reports = 0
function report(contentId: string): AccountOperation {
  const counts = [{ contentId, count: 1 }]
  const source = Buffer.alloc(16, 1)
  const value = { source, sequence: ++reports, counts, trafficDirect: 0, trafficWeb: 1000 }
  return { $case: 'reportDownloads', value }
}

t.test('the costs of operations in the database', async (t) => {
  const { meter, ask, askOfNobody, item, sleep, wake, ...stores } = await world(t)
  const costs = async (name: string, work: () => Promise<unknown>, bounds: Partial<Cost>) => {
    atMost(t, name, await meter.of(work), bounds, meter.queries)
  }

  let folderId = ''
  let contentId = ''
  const showsDownloads = async (count: number) => {
    const { result } = await ask({ $case: 'openFile', value: { contentId } } as AccountOperation)
    t.equal(result?.$case === 'file' && result.value.item?.downloads, count)
  }
  await costs(
    'a guest’s first upload, until it is answered',
    async () => {
      const file = await item(addFile({ createAccount: { tokenKeyId: 1 } }))
      folderId = file.parentFolder as string
      contentId = file.id
    },
    { conditional: 1, writes: 1, rows: 3 },
  )
  await costs('leaving', sleep, { conditional: 1, writes: 1, rows: 1 })
  await wake()
  await costs('a read of a sleeping account', () => ask({ $case: 'getAccount', value: {} }), {
    conditional: 1,
    reads: 2,
  })
  await costs('leaving, unchanged', sleep, { conditional: 1 })
  await wake()
  await costs(
    'a cold download',
    async () => {
      await ask({ $case: 'openFile', value: { contentId } } as AccountOperation)
      await ask(report(contentId))
    },
    { conditional: 1, reads: 2 },
  )
  await costs('a read that shows it', () => showsDownloads(1), { serialReads: 1 })
  await costs('further downloads', () => ask(report(contentId)), {})
  await costs('a read of an account that was never made', () => askOfNobody(), { reads: 1 })
  await costs('a read of an active account', () => ask({ $case: 'getAccount', value: {} }), {
    serialReads: 1,
  })
  t.match(Object.keys(meter.queries), [/^SELECT epoch, head, /], 'which confirms')
  t.notMatch(Object.keys(meter.queries).join(), /\broot\b/, 'without the root, which may be large')
  // All requests of one turn share a read, and so do all that arrive during a read. On a busy
  // machine this makes several reads.
  await costs(
    '32 reads of an active account at once',
    () => Promise.all(Array.from({ length: 32 }, () => ask({ $case: 'getAccount', value: {} }))),
    { serialReads: 8 },
  )
  await costs(
    'the first change of an activation, with the reports that wait',
    () => ask(createFolder(folderId)),
    {
      conditional: 1,
      writes: 1,
      rows: 1,
    },
  )
  await costs('createFolder', () => ask(createFolder(folderId)), { conditional: 1 })
  await costs('addFile of a new blob', () => ask(addFile({ folderId })), {
    conditional: 1,
    writes: 1,
    rows: 1,
  })
  await costs('two seconds later', () => delay(2_000), {})
  const many: string[] = []
  await costs(
    '1,000 addFile at once',
    async () => {
      const work = Array.from({ length: 1000 }, async () => many.push((await item(addFile({ folderId }))).id))
      await Promise.all(work)
    },
    // The number of changes in one append depends on the machine. Each file has a row for its
    // reference; the other rows are routes of blocks of share codes.
    { conditional: 100, writes: 300, rows: 1020 },
  )
  const destination = await item(createFolder(folderId))
  const sources = many.map((contentId) => ({ contentId, manifest: undefined }))
  await costs(
    'a copy of 1,000 contents',
    () =>
      ask({
        $case: 'copyContents',
        value: { sources, folderId: destination.id, skipUnreadable: false, password: undefined },
      } as AccountOperation),
    { conditional: 1, writes: 1, rows: 20 },
  )
  await costs(
    'a page of a checkpoint',
    () => stores.journals.putPage(stores.account, '9-0-0', Buffer.alloc(100_000)),
    { writes: 1, rows: 1 },
  )
  const copies = Array.from({ length: 512 }, (_, at) => {
    const id = Buffer.alloc(48)
    id.writeUInt32BE(at, 0)
    return `ref/${hex(id)}/${hex(Buffer.alloc(16, 1))}/`
  })
  await costs(
    'a look at the references of 512 copies',
    async () => {
      const found = await stores.lookups.firstOf(copies)
      t.equal(found.filter((row) => row !== undefined).length, 511, 'the first number is of no file')
    },
    // A statement asks for a hundred: 10 million copies are 100,000 statements.
    { reads: 6 },
  )
})
