/** A data centre is added to keyspaces that have rows. */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { nodetool, startCassandra } from '../../../infra/servers/cassandra.ts'
import { freePort } from '../../../infra/servers/ports.ts'
import { CassandraMetadataStore } from '../src/index.ts'
import { plainConnection, plainStore } from '../src/testing.ts'

const [hereHost, thereHost] = ['127.0.0.51', '127.0.0.52']
const root = t.testdir({ here: {}, there: {} })
const jmxPort = await freePort()
const start = (host: string, dataCentre: string, directory: string, more: object = {}) =>
  startCassandra({ directory, host, seeds: [hereHost], dataCentre, heapMiB: 384, ...more })

const both = { 'eu-par': 1, 'na-nyc': 1 }
const opened: CassandraMetadataStore[] = []
t.teardown(() => Promise.all(opened.map((store) => store.close())))
async function connect(
  dataCentre: keyof typeof both,
  more: Partial<Parameters<typeof CassandraMetadataStore.open>[0]> = {},
): Promise<CassandraMetadataStore> {
  const store = await CassandraMetadataStore.open({
    ...plainConnection,
    ...plainStore,
    contactPoints: [dataCentre === 'eu-par' ? hereHost : thereHost],
    ...{ dataCentre, keyspace: 'grown', replication: both, claimed: ['suite'] },
    ...more,
  })
  opened.push(store)
  return store
}

const here = await start(hereHost, 'eu-par', join(root, 'here'))
t.teardown(() => here.stop('SIGKILL'))
const store = await connect('eu-par', { replication: { 'eu-par': 1 } })
const ownership = await store.journals.acquire('account', { owner: 'host' })
await store.journals.append(ownership, Buffer.from('before'))
await store.lookups.claim('suite/claimed', Buffer.from('first'))
await store.lookups.write([{ put: 'code/abc', value: Buffer.from('account') }])

t.test(
  'a data centre that is not known yet is refused, and the next attempt is not kept waiting',
  async (t) => {
    const startedMs = performance.now()
    await t.rejects(store.addDataCentres(both), { name: 'JournalFault', message: /na-nyc/ })
    await t.rejects(store.addDataCentres(both), { name: 'JournalFault', message: /na-nyc/ })
    t.ok(performance.now() - startedMs < 30_000, 'no row of a leader is left')
    t.strictSame(await store.dataCentres(), ['eu-par'])
  },
)

t.test('a new data centre gets new writes at once, and earlier rows when it is rebuilt', async (t) => {
  const there = await start(thereHost, 'na-nyc', join(root, 'there'), { jmxPort })
  t.teardown(() => there.stop('SIGKILL'))
  // Data centres hear of each other a moment later.
  let fault: Error | undefined
  for (let tries = 0; tries < 60 && !/not added/.test(fault?.message ?? ''); tries++) {
    fault = await connect('na-nyc').then(
      () => undefined,
      (error: Error) => error,
    )
    if (fault === undefined) break
    await delay(500)
  }
  t.match(fault, {
    code: 'UNAVAILABLE',
    message: 'the keyspace grown is in eu-par and not in na-nyc, which was not added',
  })

  // With more replicas than it has nodes the first one would refuse everything from now on.
  const added = new Set<string>()
  let hasFailed = false
  for (let tries = 0; added.size === 0 && tries < 60; tries++)
    try {
      for (const dataCentre of await store.addDataCentres({ ...both, 'eu-par': 3 })) added.add(dataCentre)
      break
    } catch {
      // It may have taken effect.
      hasFailed = true
      await delay(500)
    }
  if (!hasFailed) t.strictSame([...added], ['na-nyc'], 'the replicas of the other stay')
  t.strictSame((await store.dataCentres()).sort(), ['eu-par', 'na-nyc'])
  await store.journals.append(ownership, Buffer.from('meanwhile'))

  const startedMs = performance.now()
  const backup = await connect('na-nyc')
  t.ok(performance.now() - startedMs < 30_000, 'it is opened while the row of its version is missing there')
  t.equal(await backup.lookups.get('code/abc'), undefined, 'earlier rows are not copied by themselves')
  for (const words of [
    ['rebuild', '--keyspace', 'grown', '--', 'eu-par'],
    ['repair', '--full', 'grown'],
  ])
    await nodetool(jmxPort, words)
  const texts = ((await backup.journals.replica('account'))?.rows ?? []).map(({ bytes }) =>
    String(Buffer.from(bytes)),
  )
  t.strictSame(texts, ['before', 'meanwhile'])
  t.equal(String(await backup.lookups.get('code/abc')), 'account')
  t.equal(String(await backup.lookups.claim('suite/claimed', Buffer.from('second'))), 'first')
  const lacking = async () => void t.fail('nothing is lacking')
  const home = await connect('eu-par', { backup: () => backup })
  t.strictSame(await home.journals.backUp('account', lacking), { rows: 0, pages: 0 })
})

t.test('data centres are never taken away', async (t) => {
  t.strictSame(await store.addDataCentres({ 'eu-par': 1 }), [])
  t.strictSame(await store.addDataCentres({ 'eu-par': 3, 'na-nyc': 3 }), [])
  t.strictSame(await store.replicasOf('grown'), both, 'nor do they get more replicas')
  t.equal(await store.replicasOf('absent'), undefined)
  t.strictSame((await store.dataCentres()).sort(), ['eu-par', 'na-nyc'])
})
