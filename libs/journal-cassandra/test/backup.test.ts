/**
 * Two data centres, with the line between them cut for longer than Cassandra keeps undelivered
 * writes.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { JournalFault } from '@holdfast/journal'
import cassandra from 'cassandra-driver'
import t from 'tap'
import { startCassandra } from '../../../infra/servers/cassandra.ts'
import type { ServerProcess } from '../../../infra/servers/server.ts'
import { until } from '../../../test/support/until.ts'
import { CassandraMetadataStore } from '../src/index.ts'
import { plainConnection, plainStore } from '../src/testing.ts'

const [hereHost, thereHost] = ['127.0.0.31', '127.0.0.32']
const hintWindowMs = 1_000
const root = t.testdir({ here: {}, there: {} })
const directories = { here: join(root, 'here'), there: join(root, 'there') }

/** What the killed data centre acknowledged must be there after it: each centre is one replica. */
const start = (host: string, dataCentre: string, directory: string) =>
  startCassandra({
    ...{ directory, host, seeds: [hereHost], dataCentre, heapMiB: 384, hintWindowMs },
    commitLogSync: 'batch',
  })

function connect(
  host: string,
  dataCentre: string,
  more: Partial<Parameters<typeof CassandraMetadataStore.open>[0]> = {},
): Promise<CassandraMetadataStore> {
  return CassandraMetadataStore.open({
    ...plainConnection,
    ...plainStore,
    contactPoints: [host],
    dataCentre,
    keyspace: 'arrival',
    replication: { 'eu-par': 1, 'na-nyc': 1 },
    ...more,
  })
}

const here = await start(hereHost, 'eu-par', directories.here)
let there: ServerProcess = await start(thereHost, 'na-nyc', directories.there)
t.teardown(() => Promise.all([here.stop('SIGKILL'), there.stop('SIGKILL')]))

const opened: { close(): Promise<unknown> }[] = []
t.teardown(() => Promise.all(opened.map((one) => one.close())))
let backup: CassandraMetadataStore | undefined

/**
 * Data centres that just started hear of each other a moment later: until then no keyspace can be
 * in both.
 */
async function opening<Store>(open: () => Promise<Store>): Promise<Store> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await open()
    } catch (error) {
      if (attempt === 20) throw error
      await delay(500)
    }
  }
}

const store = await opening(() => connect(hereHost, 'eu-par', { backup: () => backup }))
opened.push(store)
const { journals } = store

async function openThere(): Promise<CassandraMetadataStore> {
  const opening = await connect(thereHost, 'na-nyc')
  opened.push(opening)
  return opening
}

let lacking = 0
const lacks = async () => void lacking++
const row = (text: string) => Buffer.from(text)
const textsThere = async (account: string) =>
  ((await backup?.journals.replica(account))?.rows ?? []).map(({ bytes }) => Buffer.from(bytes).toString())

/** The other data centre is away for longer than the hint window when this resolves. */
async function cut(): Promise<void> {
  await backup?.close()
  backup = undefined
  await there.stop('SIGKILL')
  const log = join(directories.here, 'system.log')
  const heard = () => readFileSync(log, 'utf8').split('is now DOWN').length
  await until(() => heard() > 1)
  await delay(2 * hintWindowMs)
}

async function mend(): Promise<void> {
  there = await start(thereHost, 'na-nyc', directories.there)
  backup = await openThere()
  // Both centres communicate again when a new write arrives by itself.
  let probes = 0
  await until(async () => {
    const account = `probe-${probes++}`
    await journals.append(await journals.acquire(account, { owner: 'probe' }), row('probe'))
    await delay(200)
    return (await textsThere(account)).length === 1
  })
}

t.test('what was acknowledged during a cut longer than the hint window is sent', async (t) => {
  backup = await openThere()
  const quiet = await journals.acquire('quiet', { owner: 'host' })
  const checkpointed = await journals.acquire('checkpointed', { owner: 'host' })
  for (const ownership of [quiet, checkpointed]) await journals.append(ownership, row('before'))
  t.strictSame(await journals.backUp('quiet', lacks), { rows: 0, pages: 0 }, 'it arrives by itself')
  t.strictSame(await textsThere('quiet'), ['before'])

  await cut()
  await t.rejects(journals.backUp('quiet', lacks), { code: 'UNAVAILABLE' })
  t.equal(lacking, 0)
  for (const text of ['one', 'two']) await journals.append(quiet, row(text))
  const fresh = await journals.acquire('fresh', { owner: 'host' })
  await journals.append(fresh, row('first'))
  await journals.putPage('checkpointed', 'page', row('page'))
  await journals.setRoot(checkpointed, { root: row('root'), through: 1 })
  await journals.append(checkpointed, row('behind the root'))

  await mend()
  t.strictSame(await textsThere('quiet'), ['before'], 'nothing of it arrives by itself')
  t.equal(await backup?.journals.replica('fresh'), undefined)

  const refuses = () => Promise.reject(new JournalFault('UNAVAILABLE', 'the rows beside it do not arrive'))
  await t.rejects(journals.backUp('quiet', refuses), { code: 'UNAVAILABLE' })
  t.strictSame(await textsThere('quiet'), ['before'], 'the rows beside the journal come first')
  t.strictSame(await journals.backUp('quiet', lacks), { rows: 2, pages: 0 })
  t.equal(lacking, 1)
  t.strictSame(await textsThere('quiet'), ['before', 'one', 'two'])
  t.strictSame(await journals.backUp('fresh', lacks), { rows: 1, pages: 0 })
  t.strictSame(await textsThere('fresh'), ['first'])
  t.strictSame(await journals.backUp('checkpointed', lacks), { rows: 1, pages: 1 })
  const replica = await backup?.journals.replica('checkpointed')
  t.equal(String(replica?.root), 'root')
  t.equal(String(await replica?.page('page')), 'page')
  t.strictSame(await textsThere('checkpointed'), ['behind the root'])
  for (const account of ['quiet', 'fresh', 'checkpointed'])
    t.strictSame(await journals.backUp(account, lacks), { rows: 0, pages: 0 }, 'once')

  await t.test('copies in the other region do not block the holders of the account', async (t) => {
    await journals.append(quiet, row('three'))
    await journals.trim(checkpointed, 1)
    await journals.deletePages(checkpointed, ['page'])
    const next = await journals.acquire('quiet', { owner: 'next' })
    t.equal(next.head, 4)
    await t.rejects(journals.append(quiet, row('late')), { code: 'FENCED' })
    await journals.release(next)
  })

  await t.test('a value rewritten with its own time does not outlive a deletion', async (t) => {
    const client = new cassandra.Client({
      contactPoints: [thereHost],
      localDataCenter: 'na-nyc',
      keyspace: 'arrival',
    })
    opened.push({ close: () => client.shutdown() })
    await client.connect()
    await until(async () => {
      const { rows } = await client.execute("SELECT name FROM pages WHERE account = 'checkpointed'")
      return rows.length === 0
    })
    t.strictSame(await journals.backUp('checkpointed', lacks), { rows: 0, pages: 0 })
    t.equal(await journals.page('checkpointed', 'page'), undefined)
  })
})
