/** Many accounts at once, by the rows that the service writes for a new guest. */
import { randomBytes } from 'node:crypto'
import { openKeyring } from '@holdfast/bootstrap'
import { tokenKeyId } from '@holdfast/cluster'
import { createAccountStates } from '@holdfast/content-tree'
import { plainSettings } from '@holdfast/content-tree/testing'
import { CassandraMetadataStore } from '@holdfast/journal-cassandra'
import { type Keyring, mintRequestId, type RegionCode } from '@holdfast/kernel'
import { Change } from '@holdfast/wire'
import { encodeRow } from '../../../libs/actor-runtime/src/account/flush-row.ts'
import { keyspaceOf } from '../../../libs/cluster/src/servers/metadata.ts'
import type { ClusterRegion } from '../../cluster/local-cluster.ts'
import type { Office } from './office.ts'

const atOnce = 48

/** Accounts born there. They are in the other region too when it resolves. */
export async function seedAccounts(office: Office, birth: ClusterRegion, count: number): Promise<void> {
  const lookups = await openStore(office, birth, 'holdfast_lookups')
  const keyring = await openKeyring(lookups.lookups)
  await lookups.close()
  const keyspace = keyspaceOf(birth.code as RegionCode)
  const store = await openStore(office, birth, keyspace)
  try {
    let left = count
    const make = async () => {
      while (left-- > 0) await makeGuest(store, keyring, birth.code as RegionCode)
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
}

async function makeGuest(
  { journals }: CassandraMetadataStore,
  keyring: Keyring,
  birth: RegionCode,
): Promise<void> {
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
        operation: { $case: 'createAccount', value: { email: undefined, tokenKeyId } },
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
  // Its host is lost with its region, so nobody releases it.
  const ownership = await journals.acquire(accountId, { owner: 'seed', unwritten: 'presume' })
  await journals.append(ownership, encodeRow([Change.encode(outcome.change).finish()]))
}

async function openStore({ cluster, regions }: Office, { code }: ClusterRegion, keyspace: string) {
  return CassandraMetadataStore.open({
    contactPoints: [(await cluster.cassandraAddresses()).get(code) as string],
    dataCentre: code,
    keyspace,
    replication: Object.fromEntries(regions.map(({ code: each }) => [each, 1])),
    claimed: [],
  })
}
