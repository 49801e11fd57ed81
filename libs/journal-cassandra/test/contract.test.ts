import { join } from 'node:path'
import type { JournalOwnership } from '@holdfast/journal'
import {
  journalAccountsContract,
  journalRepairContract,
  journalStoreContract,
  lookupStoreContract,
  lookupWalkContract,
  wholeStoreContract,
} from '@holdfast/journal/testing'
import { Authority } from '@holdfast/trust'
import { openTlsFiles } from '@holdfast/trust/testing'
import cassandra from 'cassandra-driver'
import t, { type Test } from 'tap'
import { startCassandra } from '../../../infra/servers/cassandra.ts'
import { CassandraMetadataStore, type CassandraTuning } from '../src/index.ts'
import { plainConnection, plainStore } from '../src/testing.ts'
import { passesOverAllAccounts } from './passes.ts'
import { repairsInCassandra } from './repairs.ts'
import { visited } from './visited.ts'

const host = '127.0.0.21'
const directory = t.testdir()
const certificates = await madeCertificates()
const server = await startCassandra({
  directory,
  host,
  seeds: [host],
  dataCentre: 'eu-par',
  tls: {
    ca: join(directory, 'right/cassandra/ca.pem'),
    certificate: join(directory, 'right/cassandra/cassandra.pem'),
  },
})
t.teardown(() => server.stop('SIGKILL'))

function connect(
  options: Partial<Parameters<typeof CassandraMetadataStore.open>[0]> = {},
  tuning: CassandraTuning = {},
): Promise<CassandraMetadataStore> {
  return CassandraMetadataStore.open(
    {
      ...plainConnection,
      ...plainStore,
      contactPoints: [host],
      keyspace: 'holdfast',
      claimed: ['suite'],
      ...options,
    },
    tuning,
  )
}

/** Certificates of the server, of a client, and of a client that another authority knows. */
async function madeCertificates() {
  const right = await Authority.create(join(directory, 'right'), { name: 'right', days: 2 })
  await right.issue({ host: 'cassandra', names: [host] }, { days: 2 })
  await right.issue({ host: 'client', names: [] }, { days: 2 })
  const other = await Authority.create(join(directory, 'other'), { name: 'other', days: 2 })
  await other.issue({ host: 'client', names: [] }, { days: 2 })
  const files = (ca: string, own: string) =>
    openTlsFiles({
      ca: join(directory, ca, 'ca.pem'),
      own: { cert: join(directory, own, 'client/node.pem'), key: join(directory, own, 'client/node.key') },
    })
  return {
    known: files('right', 'right'),
    unknown: files('right', 'other'),
    deceived: files('other', 'right'),
  }
}

let shared: CassandraMetadataStore
t.teardown(() => shared?.close())

t.test('certificates are checked on both sides', async (t) => {
  const { known, unknown, deceived } = certificates
  await t.rejects(connect({ tls: unknown }), { name: 'JournalFault' }, 'the server does not know the client')
  await t.rejects(
    connect({ tls: deceived }),
    { message: /certificate/ },
    'the client does not know the server',
  )
  const store = await connect({ tls: known })
  t.equal(await store.lookups.get('suite/none'), undefined)
  await store.close()
  for (const files of Object.values(certificates)) files.close()
})

t.test('processes that start together make the schema once', async (t) => {
  const [first, ...others] = await Promise.all([connect(), connect(), connect(), connect()])
  for (const store of others) await store.close()
  shared = first
  t.pass()
})

async function open(t: Test) {
  const reopen = async () => {
    const again = await connect()
    t.teardown(() => again.close())
    return again
  }
  return { store: shared, reopen }
}

t.test('an overtaken leader of the schema stops', async (t) => {
  const startedMs = performance.now()
  const overtaken = "UPDATE schema_state USING TTL 3 SET value = 'another' WHERE key = 'migration-leader'"
  const store = await connect(
    { keyspace: 'overtaken' },
    { migrations: [[overtaken], ['CREATE TABLE once (key text PRIMARY KEY)']] },
  )
  await store.close()
  t.ok(performance.now() - startedMs > 2_000, 'the rest is made when no other process leads')
})

t.test('journals in Cassandra', async (t) => {
  journalStoreContract({
    test: t.test,
    open: async (t: Test) => {
      const { store, reopen } = await open(t)
      return { journals: store.journals, reopen: async () => (await reopen()).journals }
    },
  })
})

t.test('everything in Cassandra', async (t) => {
  lookupWalkContract({ test: t.test, open: async (t: Test) => (await open(t)).store.lookups })
  journalAccountsContract({ test: t.test, open: async (t: Test) => (await open(t)).store.journals })
  journalRepairContract({ test: t.test, open: async (t: Test) => (await open(t)).store.journals })
})

t.test('a whole keyspace of Cassandra', async (t) => {
  let keyspaces = 0
  const open = async (t: Test) => {
    const keyspace = `whole${keyspaces++}`
    const store = await connect({ keyspace })
    const raw = new cassandra.Client({ contactPoints: [host], localDataCenter: 'eu-par', keyspace })
    await raw.connect()
    t.teardown(() => Promise.all([store.close(), raw.shutdown()]))
    const loseRow = async (account: string, seq: number) => {
      const query = 'DELETE FROM journal WHERE account = ? AND term = 1 AND seq = ?'
      await raw.execute(query, [account, seq], { prepare: true })
    }
    const { journals, lookups, whole } = store
    return { journals, lookups, whole, loseRow }
  }
  wholeStoreContract({ test: t.test, open })
})

t.test('of an account whose home moved its last term is copied', async (t) => {
  const before = await connect({ keyspace: 'wholemoved' })
  const after = await connect({ keyspace: 'wholemoved', termOf: () => 2 })
  const empty = await connect({ keyspace: 'wholeempty', termOf: () => 2 })
  t.teardown(() => Promise.all([before.close(), after.close(), empty.close()]))
  const written = async ({ journals }: CassandraMetadataStore, account: string, text: string) => {
    const ownership = await journals.acquire(account, { owner: 'host' })
    await journals.append(ownership, Buffer.from(text))
  }
  await written(before, 'moved', 'one')
  await written(before, 'asleep', 'one')
  await written(after, 'moved', 'two')
  const onDamaged = (fault: Error) => {
    throw fault
  }
  const writer = empty.whole.restoring({ atMs: Date.now() })
  for await (const entry of before.whole.accounts({ term: 2, onDamaged })) await writer.add(entry)
  await writer.end()
  for (const [account, texts] of [
    ['moved', ['one', 'two']],
    ['asleep', ['one']],
  ] as const) {
    const ownership = await empty.journals.acquire(account, { owner: 'another' })
    const rows = await Array.fromAsync(empty.journals.rows(ownership, 0))
    t.same(
      rows.map(({ bytes }) => Buffer.from(bytes).toString()),
      texts,
    )
    await empty.journals.append(ownership, Buffer.from('next'))
  }
})

t.test('lookups in Cassandra', async (t) => {
  lookupStoreContract({
    test: t.test,
    open: async (t: Test) => {
      const { store, reopen } = await open(t)
      return { lookups: store.lookups, reopen: async () => (await reopen()).lookups }
    },
  })
})

t.test('the references of a thousand copies are read in ten statements', async (t) => {
  const prefixes = Array.from({ length: 1_000 }, () => `ref/${crypto.randomUUID()}/x/`)
  const referred = prefixes.filter((_, at) => at % 3 === 0)
  await shared.lookups.write(referred.map((prefix) => ({ put: `${prefix}account`, value: Buffer.alloc(0) })))
  let statements = 0
  const { execute } = cassandra.Client.prototype
  t.teardown(() => {
    cassandra.Client.prototype.execute = execute
  })
  cassandra.Client.prototype.execute = function (this: cassandra.Client, ...query: unknown[]) {
    statements++
    return execute.apply(this, query as Parameters<typeof execute>)
  } as typeof execute
  const found = await shared.lookups.firstOf(prefixes)
  t.same(
    found.map((row) => row !== undefined),
    prefixes.map((prefix) => referred.includes(prefix)),
  )
  t.equal(statements, 10)
})

t.test('journals of a home that moved', async (t) => {
  journalStoreContract({
    test: t.test,
    open: async (t: Test) => {
      const again = async () => {
        const store = await connect({ termOf: () => 3 })
        t.teardown(() => store.close())
        return store.journals
      }
      return { journals: await again(), reopen: again }
    },
  })
})

t.test('a home that moves', async (t) => {
  const raw = new cassandra.Client({ contactPoints: [host], localDataCenter: 'eu-par', keyspace: 'moved' })
  const before = await connect({ keyspace: 'moved' })
  await raw.connect()
  t.teardown(async () => {
    await Promise.all([before.close(), raw.shutdown()])
  })
  const successor = async (t: Test, term = 2) => {
    const store = await connect({ keyspace: 'moved', termOf: () => term })
    t.teardown(() => store.close())
    return store.journals
  }
  const rowsOf = async (
    journals: CassandraMetadataStore['journals'],
    ownership: JournalOwnership,
    after = 0,
  ) => {
    const rows: string[] = []
    for await (const { bytes } of journals.rows(ownership, after)) rows.push(Buffer.from(bytes).toString())
    return rows
  }
  const written = async (account: string, rows: string[]) => {
    const ownership = await before.journals.acquire(account, { owner: 'old' })
    for (const row of rows) await before.journals.append(ownership, Buffer.from(row))
    return ownership
  }

  await t.test(
    'an account continues from the known state, and later writes of its old host are not seen',
    async (t) => {
      const account = 'goes-on'
      const old = await written(account, ['one', 'two', 'three'])
      await before.journals.putPage(account, `${old.epoch}-0-0`, Buffer.from('page'))
      await before.journals.setRoot(old, { root: Buffer.from('root'), through: 1 })
      const journals = await successor(t)
      t.equal((await journals.head(account)).head, 3, 'it is known before it is opened')
      const ownership = await journals.acquire(account, { owner: 'new' })
      await journals.append(ownership, Buffer.from('four'))

      // The old host in its own data centre cannot be stopped.
      await before.journals.append(old, Buffer.from('late'))
      await before.journals.setRoot(old, { root: Buffer.from('late root'), through: 4 })
      await before.journals.trim(old, 4)
      await before.journals.deletePages(old, [`${old.epoch}-0-0`])

      const again = await journals.acquire(account, { owner: 'new' })
      t.same(Buffer.from(again.root as Uint8Array).toString(), 'root')
      t.same(await rowsOf(journals, again, 1), ['two', 'three', 'four'])
      t.same(
        Buffer.from((await journals.page(account, `${old.epoch}-0-0`)) as Uint8Array).toString(),
        'page',
        'with the page that its root names',
      )
      t.not(again.epoch, old.epoch)
      for (const taken of await visited(journals.takeAll(2)))
        if (taken.account === account) t.match(taken, { cut: 3, known: 4 })
    },
  )

  await t.test('a journal that is taken over is cut at the first gap', async (t) => {
    await written('gap', ['one', 'two', 'three'])
    await raw.execute("DELETE FROM journal WHERE account = 'gap' AND term = 1 AND seq = 2")
    const journals = await successor(t)
    const ownership = await journals.acquire('gap', { owner: 'new' })
    t.equal(ownership.head, 1)
    await journals.append(ownership, Buffer.from('another two'))
    t.same(await rowsOf(journals, await journals.acquire('gap', { owner: 'new' })), ['one', 'another two'])
  })

  await t.test('interrupted and racing openers take over the same state', async (t) => {
    const rows = Array.from({ length: 100 }, (_, at) => `row ${at}`)
    await written('raced', rows)
    // One that died between its epoch and the cut.
    await raw.execute(
      "UPDATE journal SET epoch = 4294967297, owner = 'dead' WHERE account = 'raced' AND term = 2 IF epoch = null",
    )
    const journals = await successor(t)
    const ownerships = await Promise.all(['a', 'b', 'c'].map((owner) => journals.acquire('raced', { owner })))
    const newest = ownerships.sort((one, other) => other.epoch - one.epoch)[0] as JournalOwnership
    t.same(await rowsOf(journals, newest), rows)
  })

  await t.test('an evacuation and hosts that open the same accounts do not block each other', async (t) => {
    for (let at = 0; at < 8; at++) await written(`busy-${at}`, ['one', 'two'])
    const journals = await successor(t)
    const taking = visited(journals.takeAll(2))
    const opening = Promise.all(
      Array.from({ length: 8 }, (_, at) => journals.acquire(`busy-${at}`, { owner: 'host' })),
    )
    t.same(
      (await taking).filter((one) => 'fault' in one),
      [],
    )
    for (const ownership of await opening) t.equal(ownership.head, 2)
  })

  await t.test('a later move takes over from the newest term that was opened', async (t) => {
    await written('twice', ['one'])
    const second = await successor(t)
    await second.append(await second.acquire('twice', { owner: 'second' }), Buffer.from('two'))
    const fourth = await successor(t, 4)
    t.same(await rowsOf(fourth, await fourth.acquire('twice', { owner: 'fourth' })), ['one', 'two'])
    const accounts = (await visited(fourth.takeAll(4))).map(({ account }) => account)
    t.same([...new Set(accounts)].sort(), [...accounts].sort(), 'each account once')
    t.same([...accounts].sort(), [
      ...Array.from({ length: 8 }, (_, at) => `busy-${at}`),
      'gap',
      'goes-on',
      'raced',
      'twice',
    ])
    const places = (await visited(fourth.takeAll(4))).map(({ account, place }) => ({
      account,
      place,
    }))
    for (const [at, { place }] of places.entries()) {
      const rest = (await visited(fourth.takeAll(4, { after: place }))).map(({ account }) => account)
      const wanted = places.slice(at + 1).map(({ account }) => account)
      t.same(rest, wanted, 'a pass continues behind any place')
    }
    t.match(
      await fourth.replica('gap'),
      { rows: [{ seq: 1 }, { seq: 2 }] },
      'a copy is read as far as it is whole',
    )
    t.equal(await fourth.replica('unknown'), undefined)
  })

  await t.test('a host that learns of the next term is fenced at once', async (t) => {
    let term = 1
    const store = await connect({ keyspace: 'moved', termOf: () => term })
    t.teardown(() => store.close())
    const ownership = await store.journals.acquire('learns', { owner: 'old' })
    await store.journals.append(ownership, Buffer.from('one'))
    term = 2
    await t.rejects(store.journals.append(ownership, Buffer.from('two')), { code: 'FENCED' })
    await t.rejects(store.journals.release(ownership), { code: 'FENCED' })
    await store.journals.putPage('learns', 'of-the-next-term', Buffer.from('page'))
    await t.rejects(store.journals.deletePages(ownership, ['of-the-next-term']), { code: 'FENCED' })
    t.ok(await store.journals.page('learns', 'of-the-next-term'), 'pages are of a term, too')
    t.not((await store.journals.head('learns')).epoch, 0)
  })

  await t.test('nothing is deleted before the backup has the replacement', async (t) => {
    const backup = await connect({ keyspace: 'behind' })
    let reachable = false
    const store = await connect({ keyspace: 'moved', backup: () => (reachable ? backup : undefined) })
    t.teardown(() => Promise.all([store.close(), backup.close()]))
    const account = 'backed-up'
    const journals = store.journals
    const ownership = await journals.acquire(account, { owner: 'host' })
    await journals.append(ownership, Buffer.from('one'))
    await journals.putPage(account, 'old', Buffer.from('old'))
    await journals.putPage(account, 'new', Buffer.from('new'))
    await journals.setRoot(ownership, { root: Buffer.from('root'), through: 1 })
    const refused = async (what: string) => {
      // Each asks for a second and a half.
      await Promise.all([
        t.rejects(journals.deletePages(ownership, ['old']), { code: 'UNAVAILABLE' }, what),
        t.rejects(journals.trim(ownership, 1), { code: 'UNAVAILABLE' }, what),
      ])
      t.ok(await journals.page(account, 'old'))
      t.same(await rowsOf(journals, ownership), ['one'])
    }
    await refused('out of reach')
    reachable = true
    await refused('behind')
    const copy = await backup.journals.acquire(account, { owner: 'replication' })
    await backup.journals.append(copy, Buffer.from('one'))
    await backup.journals.setRoot(copy, { root: Buffer.from('root'), through: 1 })
    await refused('without the page that the root names')
    await backup.journals.putPage(account, 'new', Buffer.from('new'))
    await journals.deletePages(ownership, ['old'])
    await journals.trim(ownership, 1)
    t.notOk(await journals.page(account, 'old'))
  })
})

t.test('a home that is handed back by a living region', async (t) => {
  const rowsOf = async (journals: CassandraMetadataStore['journals'], ownership: JournalOwnership) => {
    const rows: string[] = []
    for await (const { bytes } of journals.rows(ownership, 0)) rows.push(Buffer.from(bytes).toString())
    return rows
  }
  // Two keyspaces without replication: data moves only on request.
  const at = async (keyspace: string, term: number, backup?: CassandraMetadataStore) => {
    const store = await connect({
      keyspace,
      termOf: () => term,
      ...(backup === undefined
        ? {}
        : { backup: () => (reachable ? backup : undefined), handedOver: () => true }),
    })
    t.teardown(() => store.close())
    return store
  }
  let reachable = true
  const first = await at('here', 1)
  const arrived = await at('there', 1)
  const second = await at('there', 2)
  const back = await at('here', 3, second)
  const write = async ({ journals }: CassandraMetadataStore, account: string, rows: string[]) => {
    const ownership = await journals.acquire(account, { owner: 'host' })
    for (const row of rows) await journals.append(ownership, Buffer.from(row))
    return ownership
  }

  await t.test(
    'it begins with what the other acknowledged last, which acknowledges nothing more',
    async (t) => {
      await write(first, 'moved', ['one', 'two', 'behind the cut'])
      await write(arrived, 'moved', ['one', 'two'])
      const held = await write(second, 'moved', ['three'])
      await second.journals.putPage('moved', 'page', Buffer.from('page'))

      t.equal((await back.journals.head('moved')).head, 3, 'it is known before it is opened')
      const ownership = await back.journals.acquire('moved', { owner: 'new' })
      t.same(await rowsOf(back.journals, ownership), ['one', 'two', 'three'])
      t.same(Buffer.from((await back.journals.page('moved', 'page')) ?? []).toString(), 'page')
      await t.rejects(second.journals.append(held, Buffer.from('late')), { code: 'FENCED' })
      await t.rejects(second.journals.acquire('moved', { owner: 'another' }), { code: 'FENCED' })

      reachable = false
      await back.journals.append(ownership, Buffer.from('four'))
      const again = await back.journals.acquire('moved', { owner: 'newer' })
      t.same(
        await rowsOf(back.journals, again),
        ['one', 'two', 'three', 'four'],
        'from then on it is independent',
      )
      reachable = true
    },
  )

  await t.test('every change acknowledged meanwhile is taken over, and no other', async (t) => {
    await write(arrived, 'raced', [])
    const held = await second.journals.acquire('raced', { owner: 'host' })
    const acknowledged: string[] = []
    const enough = Promise.withResolvers<void>()
    const writing = (async () => {
      for (let at = 0; at < 5_000; at++) {
        await second.journals.append(held, Buffer.from(`row ${at}`))
        acknowledged.push(`row ${at}`)
        if (at === 20) enough.resolve()
      }
    })()
    const ended = writing.catch((fault: unknown) => fault)
    await enough.promise
    const ownership = await back.journals.acquire('raced', { owner: 'new' })
    t.match(await ended, { code: 'FENCED' })
    t.same(await rowsOf(back.journals, ownership), acknowledged)
  })

  await t.test('an account never served there is as it was here; new accounts begin', async (t) => {
    const held = await write(first, 'stayed', ['one'])
    t.same(await rowsOf(back.journals, await back.journals.acquire('stayed', { owner: 'new' })), ['one'])
    await t.rejects(first.journals.append(held, Buffer.from('late')), { code: 'FENCED' })
    t.equal((await back.journals.acquire('born', { owner: 'new' })).head, 0)
    await t.rejects(second.journals.acquire('born', { owner: 'late' }), { code: 'FENCED' })
  })

  await t.test('while the other is unreachable nothing counts as absent', async (t) => {
    await write(second, 'asked', ['one'])
    reachable = false
    await t.rejects(back.journals.acquire('asked', { owner: 'new' }), { code: 'UNAVAILABLE' })
    await t.rejects(back.journals.head('asked'), { code: 'UNAVAILABLE' })
    reachable = true
    t.equal((await back.journals.head('asked')).head, 1)
  })

  await t.test('all are taken, each once', async (t) => {
    await write(second, 'last', ['one', 'two'])
    await write(first, 'only here', ['one'])
    const note = 'wake/home/1/2/2/last'
    await second.lookups.write([{ put: note, value: Buffer.from('there') }], 7n)
    await back.lookups.write([{ put: `${note}er`, value: Buffer.from('younger') }], 9n)
    await second.lookups.write([{ put: `${note}er`, value: Buffer.from('older') }], 8n)
    const taken: object[] = []
    for (const one of await visited(back.journals.takeAll(3, { handedOver: true }))) taken.push(one)
    const accounts = taken.map((one) => (one as { account: string }).account)
    t.same(accounts.sort(), ['asked', 'born', 'last', 'moved', 'only here', 'raced', 'stayed'])
    t.notOk(taken.some((one) => 'fault' in one))
    t.match(
      taken.find((one) => (one as { account: string }).account === 'last'),
      { cut: 2, known: 2 },
    )
    t.equal(
      (await (await at('here', 3)).journals.head('last')).head,
      2,
      'and the old region is not asked any more',
    )
    const noteOf = async (key: string) => Buffer.from((await back.lookups.get(key)) ?? []).toString()
    t.equal(await noteOf(note), 'there', 'and they are woken here')
    t.equal(await noteOf(`${note}er`), 'younger')
    await back.lookups.write([{ delete: note }], 6n)
    t.equal(await noteOf(note), 'there', 'with the write times they had')
  })
})

t.test('damaged accounts and their repair', (t) => repairsInCassandra(t, host))

t.test('passes over all accounts of a home that moved', (t) => passesOverAllAccounts(t, host))
