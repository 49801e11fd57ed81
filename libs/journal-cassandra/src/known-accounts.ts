/** Accounts as the journals of one or two data centres know them. */
import type { CassandraConnection } from './connection.ts'
import { numberOf } from './region-terms.ts'
import { wholeRing } from './ring.ts'

const accountsPerPage = 1_000
const keys = 'DISTINCT account, term'

/** Account and term of every journal; `after` continues at a place of an earlier walk. */
export function partitions(connection: CassandraConnection, after?: string, columns = keys) {
  return wholeRing(connection, {
    columns,
    table: 'journal',
    partition: 'account, term',
    rowsPerPage: accountsPerPage,
    ...(after === undefined ? {} : { after }),
  })
}

export interface KnownAccount {
  account: string
  /** The earlier term. */
  from: number
  /** The epoch in that term, when it was listed. */
  epoch: unknown
  listedIn: 'other' | 'own'
  place: string
}

/** A place of the ring with nothing to move. It shows how far a pass is. */
export interface Gap {
  place: string
}

/**
 * Accounts and the earlier terms in which they are known, and gaps. @param other knows more of
 * them, and is asked first
 */
export async function* knownBefore(
  term: number,
  {
    own,
    other,
    after,
  }: { own: CassandraConnection; other: CassandraConnection | undefined; after: string | undefined },
): AsyncIterable<KnownAccount | Gap> {
  const [list, behind] = after?.split(' ') ?? []
  const listed = (connection: CassandraConnection, listedIn: KnownAccount['listedIn']) =>
    earlier(connection, { term, listedIn, behind: listedIn === list ? behind : undefined })
  if (other === undefined) return yield* listed(own, 'own')
  if (list !== 'own') yield* listed(other, 'other')
  const there = partitions(other, list === 'own' ? behind : undefined)
  yield* lacking(listed(own, 'own'), there)
}

async function* earlier(
  connection: CassandraConnection,
  {
    term,
    listedIn,
    behind,
  }: { term: number; listedIn: KnownAccount['listedIn']; behind: string | undefined },
): AsyncGenerator<KnownAccount | Gap> {
  for await (const { row, place: at } of partitions(connection, behind, `${keys}, epoch`)) {
    if (at === behind) continue
    const place = `${listedIn} ${at}`
    const from = numberOf(row.term)
    if (from >= term) yield { place }
    else yield { account: row.account as string, from, epoch: row.epoch, listedIn, place }
  }
}

/**
 * Those of the first list that are not in the second one, and gaps in place of the rest. Both are
 * in the order of the ring, so each is read once, however many accounts there are.
 */
async function* lacking(
  some: AsyncIterable<KnownAccount | Gap>,
  others: ReturnType<typeof partitions>,
): AsyncIterable<KnownAccount | Gap> {
  let next = await others.next()
  /** Places of more than one account are possible. */
  let there: { at: bigint; names: Set<string> } | undefined
  for await (const one of some) {
    if (!('account' in one)) {
      yield one
      continue
    }
    const at = BigInt(one.place.slice(one.listedIn.length + 1))
    if (there?.at !== at) there = { at, names: new Set() }
    for (; !next.done && BigInt(next.value.place) <= at; next = await others.next()) {
      const { row, place } = next.value
      if (BigInt(place) === at) there.names.add(`${row.account} ${row.term}`)
    }
    yield there.names.has(`${one.account} ${one.from}`) ? { place: one.place } : one
  }
}

/** The results of work on many items, in their order, while some of it is under way. */
export async function* inOrder<Item, Result>(
  items: AsyncIterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<Result>,
): AsyncIterable<Result> {
  const running: Promise<Result>[] = []
  for await (const item of items) {
    const result = work(item)
    // The error is thrown when the result is read below. This only prevents an unhandled rejection.
    result.catch(() => {})
    running.push(result)
    if (running.length >= atOnce) yield (await running.shift()) as Result
  }
  yield* running
}
