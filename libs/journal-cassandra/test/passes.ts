/**
 * Passes over all accounts of a home that moved. `contract.test.ts` runs them: one Cassandra serves
 * both.
 */
import type { JournalOwnership } from '@holdfast/journal'
import type { Test } from 'tap'
import { CassandraConnection } from '../src/connection.ts'
import { CassandraJournalStore } from '../src/journal-store.ts'
import { CassandraLookupStore } from '../src/lookup-store.ts'
import { plainConnection } from '../src/testing.ts'
import { visited } from './visited.ts'

/** More than are under way at one time. */
const count = 120

/** @param host where the Cassandra of the data centre eu-par is */
export async function passesOverAllAccounts(t: Test, host: string): Promise<void> {
  let asked = 0
  const open = async (keyspace: string) => {
    const connection = await CassandraConnection.open({
      ...plainConnection,
      ...{ contactPoints: [host], keyspace },
      onRequest: () => asked++,
    })
    t.teardown(() => connection.close())
    return connection
  }
  /** Homes of two data centres without replication: data moves only on request. */
  const world = async (name: string) => {
    const [here, there] = await Promise.all([open(`${name}_here`), open(`${name}_there`)])
    const at = (connection: CassandraConnection, term: number, other?: CassandraConnection) =>
      new CassandraJournalStore(connection, {
        termOf: () => term,
        backup: other && (() => other),
        handedOver: () => other !== undefined,
      })
    return { here, there, at }
  }
  const names = (what: string) => Array.from({ length: count }, (_, at) => `${what}-${at}`)

  await t.test('an account costs three requests, and four when it is handed over', async (t) => {
    const { here, there, at } = await world('asked')
    const accounts = names('asked')
    await Promise.all(accounts.map((account) => write(at(there, 1), account, ['one', 'two'])))
    asked = 0
    const evacuated = await visited(at(there, 2).takeAll(2))
    t.ok(asked <= 3 * count, `${asked} requests for ${count} accounts`)
    t.same(evacuated.map(placeless).sort(byAccount), accounts.map((one) => wholeOf(one, 2)).sort(byAccount))
    const { previousOwner } = await at(there, 2).acquire('asked-0', { owner: 'host' })
    t.equal(previousOwner, undefined, 'no host is asked to release it')
    asked = 0
    const returned = await visited(at(here, 3, there).takeAll(3, { handedOver: true }))
    t.ok(asked <= 5 * count, `${asked} requests for ${count} accounts, and one for each older term`)
    t.same(returned.map(placeless).sort(byAccount), accounts.map((one) => wholeOf(one, 2)).sort(byAccount))
    await Promise.all(
      accounts.map(async (account) => t.same(await read(at(here, 3), account), ['one', 'two'])),
    )
    await t.rejects(at(there, 2).acquire('asked-1', { owner: 'late' }), { code: 'FENCED' })
  })

  await t.test('the next tasks of accounts come in a few requests', async (t) => {
    const { here, there, at } = await world('notes')
    const hours = ['100', '101', '102']
    const keys = hours.flatMap((hour) =>
      names('account').map((name) => `wake/na-nyc/1/${hour}/${hour}/${name}`),
    )
    const value = (key: string) => Buffer.from(`task of ${key}`)
    const rows = (connection: CassandraConnection) => new CassandraLookupStore(connection, [])
    await rows(there).write(keys.map((key) => ({ put: key, value: value(key) })))
    asked = 0
    await visited(at(here, 3, there).takeAll(3, { handedOver: true }))
    t.ok(asked <= keys.length / 10, `${asked} requests for ${keys.length} rows`)
    const found = await Promise.all(keys.map((key) => rows(here).get(key)))
    t.same(
      found.map((one) => Buffer.from(one ?? []).toString()),
      keys.map((key) => value(key).toString()),
    )
  })

  await t.test('a pass that is interrupted among rows that stay continues behind them', async (t) => {
    const { here, there, at } = await world('gaps')
    const accounts = names('moved')
    await Promise.all(accounts.map((account) => write(at(there, 2), account, ['one'])))
    const note = (name: string) => ({ put: `wake/na-nyc/1/${name}`, value: Buffer.from(name) })
    await new CassandraLookupStore(there, []).write(accounts.map(note))
    await visited(at(here, 3, there).takeAll(3, { handedOver: true }))
    const back = at(here, 3, there)
    const steps = await Array.fromAsync(back.takeAll(3, { handedOver: true }))
    t.equal(steps.filter((step) => 'account' in step).length, count)
    const lists = new Set(steps.map(({ place }) => place.split(' ')[0]))
    t.same([...lists], ['notes', 'other', 'own'], 'and each list shows how far the pass is')
    for (const index of [0, 1, 2].map((third) => Math.floor((third * steps.length) / 3) + 1)) {
      const after = steps[index]?.place
      const rest = await Array.fromAsync(back.takeAll(3, { handedOver: true, after }))
      const behind = new Set(steps.slice(index + 1).map(({ place }) => place))
      t.ok(rest.length < steps.length - index + 30, `${rest.length} of ${steps.length} behind ${index}`)
      for (const place of behind) t.ok(rest.some((step) => step.place === place))
    }
  })

  await t.test('accounts that only one of two data centres has are taken, each once', async (t) => {
    const { here, there, at } = await world('lists')
    const [both, stayed, born] = [names('both'), names('stayed'), names('born')]
    await Promise.all([...both, ...stayed].map((account) => write(at(here, 1), account, ['one'])))
    await Promise.all(both.map((account) => write(at(there, 1), account, ['one'])))
    await Promise.all([...both, ...born].map((account) => write(at(there, 2), account, ['two'])))
    const back = at(here, 3, there)
    const taken = await visited(back.takeAll(3, { handedOver: true }))
    t.same(taken.map(({ account }) => account).sort(), [...both, ...stayed, ...born].sort())
    const [first = '', own = ''] = [both, stayed].map(
      (some) => taken.find(({ account }) => some.includes(account))?.place,
    )
    t.match([first, own], [/^other /, /^own /])
    for (const place of [first, own]) {
      const rest = await visited(back.takeAll(3, { handedOver: true, after: place }))
      const behind = taken.slice(taken.findIndex((one) => one.place === place) + 1)
      t.same(
        rest.map(({ account }) => account),
        behind.map(({ account }) => account),
        'a pass that was interrupted continues behind any place',
      )
    }
    t.same(await read(at(here, 3), 'both-1'), ['one', 'two'])
    t.same(await read(at(here, 3), 'stayed-1'), ['one'])
  })

  await t.test('a pass that ends in the middle, and two at a time, lose nothing', async (t) => {
    const { there, at } = await world('ended')
    const accounts = names('ended')
    await Promise.all(accounts.map((account) => write(at(there, 1), account, ['one'])))
    // Died between the epoch and the cut.
    for (const account of accounts.slice(0, 10))
      await there.run(
        `UPDATE journal SET epoch = 4294967297, owner = 'dead' WHERE account = ? AND term = 2`,
        [account],
      )
    const next = at(there, 2)
    let seen = 0
    for await (const step of next.takeAll(2)) if ('account' in step && ++seen === 30) break
    const passes = await Promise.all([1, 2].map(() => visited(next.takeAll(2))))
    for (const taken of passes)
      t.same(taken.map(placeless).sort(byAccount), accounts.map((one) => wholeOf(one, 1)).sort(byAccount))
    await Promise.all(accounts.map(async (account) => t.same(await read(next, account), ['one'])))
  })

  await t.test('a host that opens an account after a pass has read it loses no write', async (t) => {
    const { there, at } = await world('host')
    await write(at(there, 1), 'used', ['one'])
    const [pass, before] = stopping(there, 'conditional')
    const opened = before.then(async (resume) => {
      await write(at(there, 2), 'used', ['two'])
      resume()
    })
    t.match(await visited(at(pass, 2).takeAll(2)), [{ account: 'used', cut: 1, known: 1 }])
    await opened
    t.same(await read(at(there, 2), 'used'), ['one', 'two'])
  })

  await t.test('what is acknowledged until an account is closed is handed over', async (t) => {
    const { here, there, at } = await world('closing')
    const served = at(there, 2)
    const use = async (account: string, held: JournalOwnership) => {
      await served.append(held, Buffer.from('two'))
      await served.putPage(account, 'page', Buffer.from('page'))
      await served.setRoot(held, { root: Buffer.from('root'), through: held.head })
      await served.trim(held, held.head)
    }
    for (const account of ['by-pass', 'by-host']) {
      const held = await write(served, account, ['one'])
      const [other, before] = stopping(there, 'conditional')
      const used = before.then(async (resume) => {
        await use(account, held)
        resume()
      })
      const back = at(here, 3, other)
      if (account === 'by-pass')
        t.match(await visited(back.takeAll(3, { handedOver: true })), [{ account, cut: 2, known: 2 }])
      const { head, root } = await back.acquire(account, { owner: 'new' })
      await used
      t.equal(head, 2)
      t.equal(Buffer.from(root ?? []).toString(), 'root', account)
      t.ok(await back.page(account, 'page'))
      // The next pass has one account.
      await here.run('DELETE FROM journal WHERE account = ? AND term = 3', [account])
      await there.run('DELETE FROM journal WHERE account = ? AND term = 2', [account])
    }
  })
}

async function write(
  journals: CassandraJournalStore,
  account: string,
  rows: string[],
): Promise<JournalOwnership> {
  const ownership = await journals.acquire(account, { owner: 'host' })
  for (const row of rows) await journals.append(ownership, Buffer.from(row))
  return ownership
}

async function read(journals: CassandraJournalStore, account: string): Promise<string[]> {
  const ownership = await journals.acquire(account, { owner: 'reader' })
  return Array.fromAsync(journals.rows(ownership, 0), ({ bytes }) => Buffer.from(bytes).toString())
}

/** Pauses the connection's first call of this kind. @returns when it waits, and what resumes it */
function stopping(connection: CassandraConnection, what: 'conditional') {
  const reached = Promise.withResolvers<() => void>()
  let isFirst = true
  const stopped = new Proxy(connection, {
    get(of, name) {
      const method = of[name as keyof CassandraConnection] as (...given: unknown[]) => unknown
      if (name !== what) return method.bind(of)
      return async (...given: unknown[]) => {
        if (isFirst) {
          isFirst = false
          await new Promise<void>((resume) => reached.resolve(resume))
        }
        return method.apply(of, given)
      }
    },
  })
  return [stopped, reached.promise] as const
}

function placeless<One extends { place: string }>({ place: _, ...one }: One) {
  const { changedMs, ...rest } = one as unknown as { changedMs: number; account: string }
  return { ...rest, isDated: changedMs > 0 }
}

function wholeOf(account: string, rows: number) {
  return { account, cut: rows, known: rows, isDated: true }
}

function byAccount(one: { account: string }, other: { account: string }): number {
  return one.account < other.account ? -1 : 1
}
