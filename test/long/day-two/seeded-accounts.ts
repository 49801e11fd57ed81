/** Many accounts at once, by the rows that the service writes for a new guest. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { openKeyring } from '@holdfast/bootstrap'
import { createAccountStates } from '@holdfast/content-tree'
import { plainSettings } from '@holdfast/content-tree/testing'
import { epochsPerTerm, JournalFault } from '@holdfast/journal'
import { CassandraMetadataStore } from '@holdfast/journal-cassandra'
import { plainConnection, plainStore } from '@holdfast/journal-cassandra/testing'
import { type Keyring, mintRequestId, type RegionCode, tokenKeyId } from '@holdfast/kernel'
import { Change } from '@holdfast/wire'
import { encodeFlushRow } from '../../../libs/actor-runtime/src/account/rows/flush-row.ts'
import { keyspaceOf } from '../../../libs/cluster/src/servers/metadata.ts'
import type { ClusterRegion } from '../../cluster/local-cluster.ts'
import type { Office } from './office.ts'

const atOnce = 48
/** One of this many is compared afterwards. */
const sampledOf = 100

/** The only row of some accounts. */
export type Seeded = ReadonlyMap<string, Uint8Array>

/** Accounts born there. They are in the other region too when it resolves. */
export async function seedAccounts(office: Office, birth: ClusterRegion, count: number): Promise<Seeded> {
  const sample = new Map<string, Uint8Array>()
  const lookups = await openStore(office, birth, 'holdfast_lookups')
  const keyring = await openKeyring(lookups.lookups)
  await lookups.close()
  const keyspace = keyspaceOf(birth.code as RegionCode)
  const store = await openStore(office, birth, keyspace)
  try {
    let left = count
    const make = async () => {
      for (let at = left--; at > 0; at = left--) {
        const made = await makeGuest(store, keyring, birth.code as RegionCode).catch(unlessJournalFault)
        // Whether that one was written is not known: another takes its place.
        if (made === undefined) left++
        else if (at % sampledOf === 0) sample.set(made.accountId, made.row)
      }
    }
    await Promise.all(Array.from({ length: atOnce }, make))
  } finally {
    await store.close()
  }
  const [elsewhere = birth] = office.regions.filter(({ code }) => code !== birth.code)
  const copy = await openStore(office, elsewhere, keyspace)
  try {
    await office.until('all accounts are in two regions', async () => {
      let known = 0
      for await (const _ of copy.journals.accounts()) known++
      return known >= count
    })
  } finally {
    await copy.close()
  }
  return sample
}

/**
 * @returns how many were compared. @throws AssertionError when one is not as it was seeded, in the
 *   term in which it is at home again
 */
export async function compareSeeded(office: Office, birth: ClusterRegion, sample: Seeded): Promise<number> {
  const { term } = (await office.status()).regions.find(({ code }) => code === birth.code) ?? { term: 0 }
  const store = await openStore(office, birth, keyspaceOf(birth.code as RegionCode), term)
  try {
    for (const [account, row] of sample) {
      const { epoch } = await store.journals.head(account)
      assert.ok(epoch > epochsPerTerm * (term - 1), `${account} is not open at home: epoch ${epoch}`)
      const { rows = [] } = (await store.journals.replica(account)) ?? {}
      assert.deepEqual(
        rows.map(({ bytes }) => Buffer.from(bytes)),
        [Buffer.from(row)],
        account,
      )
    }
  } finally {
    await store.close()
  }
  return sample.size
}

async function makeGuest(
  { journals }: CassandraMetadataStore,
  keyring: Keyring,
  birth: RegionCode,
): Promise<{ accountId: string; row: Uint8Array }> {
  const accountId = keyring.ids.account(birth, randomBytes(8))
  const nowMs = Date.now()
  const outcome = createAccountStates(plainSettings(keyring))
    .empty(accountId)
    .decide(
      {
        accountId,
        requestId: mintRequestId(nowMs),
        deadlineMs: nowMs + 60_000,
        caller: { who: { $case: 'system', value: {} } },
        tierNeeded: '',
        clientNetwork: undefined,
        clientRequest: '',
        traceparent: undefined,
        operation: { $case: 'createAccount', value: { email: undefined, tokenKeyId, isNewId: true } },
      },
      {
        nowMs,
        seed: randomBytes(16),
        newId: () => keyring.ids.content(accountId, randomBytes(8)),
        codes: { next: 0, end: 0 },
        legacyCodes: { next: 0, end: 0 },
        verdict: () => undefined,
      },
    )
  if (outcome.kind !== 'change') throw new Error(`a new account answered with ${outcome.kind}`)
  // Its host is lost with its region, so no host releases it.
  const ownership = await journals.acquire(accountId, { owner: 'seed', unwritten: 'presume' })
  const row = encodeFlushRow([Change.encode(outcome.change).finish()])
  await journals.append(ownership, row)
  return { accountId, row }
}

function unlessJournalFault(error: unknown): undefined {
  if (!(error instanceof JournalFault)) throw error
}

async function openStore(
  { cluster, regions }: Office,
  { code }: ClusterRegion,
  keyspace: string,
  term = 1,
): Promise<CassandraMetadataStore> {
  return CassandraMetadataStore.open({
    ...plainConnection,
    ...plainStore,
    contactPoints: [(await cluster.cassandraAddresses()).get(code) as string],
    dataCentre: code,
    keyspace,
    replication: Object.fromEntries(regions.map(({ code: each }) => [each, 1])),
    claimed: [],
    termOf: () => term,
  })
}
