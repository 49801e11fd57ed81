/** The accounts of a data centre, and of the one that hands its accounts over. */
import type { CassandraConnection } from './connection.ts'
import { numberOf, statics } from './region-terms.ts'
import { wholeRing } from './ring.ts'

const accountsPerPage = 1_000

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
  for await (const one of listed(own, 'own'))
    if ((await other.run(statics, [one.account, one.from])).length === 0) yield one
}
