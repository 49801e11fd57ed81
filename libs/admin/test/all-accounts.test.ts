/** The walk over all accounts, in pieces, over stores that begin a piece with rows seen before. */
import type { AccountClient } from '@holdfast/accounts'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { Keyring, type RegionCode } from '@holdfast/kernel'
import { BlockLists } from '@holdfast/moderation'
import type { AccountRequest, SearchHit } from '@holdfast/wire'
import t from 'tap'
import { AllAccounts } from '../src/accounts/all-accounts.ts'

const keyring = new Keyring(Buffer.alloc(32, 7))
const region: RegionCode = 'eu-par'
const ids = Array.from({ length: 30 }, (_, at) => {
  const random = Buffer.alloc(8)
  random.writeUInt32BE(at + 1)
  return keyring.ids.account(region, random)
}).sort()
const blob = `${'ab'.repeat(16)}${'cd'.repeat(32)}`

interface World {
  /** Hits of each account. */
  hits: number
  /** The account that does not answer. */
  silent?: string
  asked: string[]
}

function page({ hits, silent, asked }: World, { accountId, operation }: Omit<AccountRequest, 'deadlineMs'>) {
  asked.push(accountId)
  if (accountId === silent) throw Object.assign(new Error('out of reach'), { category: 'unavailable' })
  if (operation?.$case !== 'findContents') throw new Error(operation?.$case)
  const { page, pageSize } = operation.value
  const of = Array.from({ length: hits }, (_, at): SearchHit => {
    const id = `${accountId}/${at}`
    return { id, isFolder: false, name: 'f', path: '/f', size: 1, createTime: 0, inBin: false }
  })
  const value = {
    hits: of.slice((page - 1) * pageSize, page * pageSize),
    page: { page, pageSize, totalCount: hits },
  }
  return { result: { $case: 'search', value } as const }
}

async function allAccounts(world: World, { tickMs = 0 } = {}) {
  let nowMs = 0
  // Time passes by reading it: a piece ends where it should without waiting.
  const clock = {
    now: () => nowMs,
    monotonic: () => {
      nowMs += tickMs
      return nowMs
    },
  }
  const lookups = new MemoryLookupStore()
  const accounts: AccountClient = { call: async (request) => page(world, request) }
  // All of one place, as the partition of one copy is in Cassandra.
  async function* listReferences(after = '') {
    if (after <= '7') for (const id of ids) yield { key: `ref/${blob}/${'0'.repeat(32)}/${id}`, place: '7' }
    yield { key: `ref/${'ef'.repeat(48)}/${'0'.repeat(32)}/${ids[0]}`, place: '8' }
  }
  async function* listAccounts(after: string | undefined) {
    for (const id of ids) if (after === undefined || id >= after) yield { account: id, place: id }
  }
  return new AllAccounts({
    accounts,
    clock,
    lookups,
    ids: keyring.ids,
    keyring,
    region,
    tokenKeyId: 1,
    signUpDomains: [],
    repair: async () => ({}),
    listAccounts,
    listReferences,
    questionsPerSecond: 1_000_000,
    lists: await BlockLists.open({ lookups, clock, onChange: undefined }),
  })
}

async function all(search: AllAccounts, sought: { hash: string } | { text: string }) {
  const found: string[] = []
  const failed: string[] = []
  let pieces = 0
  for (let after: string | null | undefined; after !== null && pieces < 1_000; pieces++) {
    const piece = await search.find(sought, after)
    found.push(...piece.hits.map(({ id }) => id))
    failed.push(...piece.failed.map(({ account }) => account))
    after = piece.next
  }
  return { found, failed, pieces }
}

for (const [what, sought] of [
  ['md5', { hash: 'ab'.repeat(16) }],
  ['BLAKE3', { hash: 'cd'.repeat(32) }],
  ['text', { text: 'f' }],
] as const) {
  t.test(`${what}: each hit comes once, for every place at which pieces begin`, async (t) => {
    const { found, pieces } = await all(await allAccounts({ hits: 70, asked: [] }), sought)
    t.equal(found.length, 30 * 70)
    t.equal(new Set(found).size, 30 * 70)
    t.ok(pieces >= 10, `${pieces} pieces`)
  })

  t.test(`${what}: an account of many pages is continued in itself`, async (t) => {
    const world: World = { hits: 450, asked: [] }
    const { found } = await all(await allAccounts(world), sought)
    t.equal(new Set(found).size, 30 * 450)
    t.equal(found.length, 30 * 450)
    t.equal(world.asked.length, 30 * 3, 'no page is read twice')
  })

  t.test(`${what}: a call ends in time, and the next one continues`, async (t) => {
    const { found, pieces } = await all(await allAccounts({ hits: 1, asked: [] }, { tickMs: 900 }), sought)
    t.equal(found.length, 30)
    t.ok(pieces > 10 && pieces < 100, `${pieces} pieces`)
  })

  t.test(`${what}: an account that does not answer is named, and the others are asked`, async (t) => {
    const silent = ids[3] as string
    const { found, failed } = await all(await allAccounts({ hits: 1, silent, asked: [] }), sought)
    t.equal(found.length, 29)
    t.same(failed, [silent])
  })
}

t.test('no account is asked for other bytes', async (t) => {
  const world: World = { hits: 1, asked: [] }
  t.same((await all(await allAccounts(world), { hash: 'ab'.repeat(32) })).found, [])
  t.equal(world.asked.length, 0)
})
