import { JournalFault } from '@holdfast/journal'
import t from 'tap'
import type { CassandraRow } from '../src/connection.ts'
import { wholeRing } from '../src/ring.ts'

const options = { columns: 'key', table: 'lookups', partition: 'part', rowsPerPage: 10 }

/**
 * A table whose reads fail when they cover more deleted partitions than a node is willing to skip.
 */
function table(live: bigint[], deleted: bigint[], deletedMax: number) {
  let reads = 0
  return {
    get reads() {
      return reads
    },
    async *pages(_: string, [from, to]: unknown[]): AsyncGenerator<CassandraRow> {
      reads++
      const within = (place: bigint) => place >= (from as bigint) && place <= (to as bigint)
      if (deleted.filter(within).length > deletedMax)
        throw new JournalFault('UNAVAILABLE', 'too many deleted rows')
      for (const place of live.filter(within)) yield { place } as unknown as CassandraRow
    },
  }
}

async function seen(connection: Parameters<typeof wholeRing>[0], after?: string) {
  const found = wholeRing(connection, { ...options, ...(after === undefined ? {} : { after }) })
  return Array.fromAsync(found, ({ place }) => place)
}

t.test('a walk passes more deleted rows than one read may meet, by halving', async (t) => {
  const spread = (count: number) =>
    Array.from({ length: count }, (_, at) => -(2n ** 63n) + (2n ** 64n / BigInt(count)) * BigInt(at))
  const live = spread(50)
  const connection = table(live, spread(1_000), 100)
  t.same(await seen(connection), live.map(String))
  t.same(await seen(connection, String(live[20])), live.slice(20).map(String))
})

t.test('a table that cannot be read is a fault after a bounded number of reads', async (t) => {
  const connection = table([], [], -1)
  await t.rejects(seen(connection), { code: 'UNAVAILABLE' })
  t.ok(connection.reads <= 20, `${connection.reads} reads`)
})
