/** The accounts of a data centre, and of the one that hands its accounts over. */
import type { CassandraConnection } from './connection.ts'
import { numberOf, statics } from './region-terms.ts'
import { wholeRing } from './ring.ts'

const accountsPerPage = 1_000
/** Questions to another data centre under way: each takes a round trip between regions. */
const askedAtOnce = 64

/** Account and term of every journal; `after` continues at a place of an earlier walk. */
export function partitions(connection: CassandraConnection, after?: string) {
  return wholeRing(connection, {
    columns: 'DISTINCT account, term',
    table: 'journal',
    partition: 'account, term',
    rowsPerPage: accountsPerPage,
    ...(after === undefined ? {} : { after }),
  })
}

/**
 * Accounts and the earlier terms in which they are known. @param other knows more of them, and is
 * asked first
 */
export async function* knownBefore(
  term: number,
  {
    own,
    other,
    after,
  }: { own: CassandraConnection; other: CassandraConnection | undefined; after: string | undefined },
): AsyncIterable<{ account: string; from: number; place: string }> {
  const [listIn, behind] = after?.split(' ') ?? []
  const listed = async function* (connection: CassandraConnection, list: 'other' | 'own') {
    const found = partitions(connection, list === listIn ? behind : undefined)
    for await (const { row, place } of found) {
      if (numberOf(row.term) >= term || (list === listIn && place === behind)) continue
      yield { account: row.account as string, from: numberOf(row.term), place: `${list} ${place}` }
    }
  }
  if (other === undefined) return yield* listed(own, 'own')
  if (listIn !== 'own') yield* listed(other, 'other')
  const lacking = inOrder(listed(own, 'own'), askedAtOnce, async (one) =>
    (await other.run(statics, [one.account, one.from])).length === 0 ? one : undefined,
  )
  for await (const one of lacking) if (one !== undefined) yield one
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
    // Its turn tells of a fault.
    result.catch(() => {})
    running.push(result)
    if (running.length >= atOnce) yield (await running.shift()) as Result
  }
  yield* running
}
