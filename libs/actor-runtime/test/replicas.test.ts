/** Downloads while the home of an account is unavailable: the real core on a copy of a journal. */

import { randomBytes } from 'node:crypto'
import { RoutedAccountClient, replicaSubjectOf } from '@holdfast/accounts'
import { plainClient } from '@holdfast/accounts/testing'
import { MemoryBus } from '@holdfast/bus'
import { createAccountStates } from '@holdfast/content-tree'
import { plainSettings } from '@holdfast/content-tree/testing'
import type { JournalReplica } from '@holdfast/journal'
import { MemoryJournalStore, MemoryLookupStore, MemoryMedium } from '@holdfast/journal/testing'
import { Keyring, mintRequestId } from '@holdfast/kernel'
import { type AccountOperation, AccountReply, AccountRequest, CheckpointRoot } from '@holdfast/wire'
import t from 'tap'
import { AccountHost, type AccountHostOptions } from '../src/index.ts'
import { plainHost } from '../src/testing.ts'

const ring = new Keyring(Buffer.alloc(32, 7))
const states = createAccountStates(plainSettings(ring))

const bus = new MemoryBus()
const medium = new MemoryMedium()
const journal = new MemoryJournalStore(medium)

function host(hostId: string, more: Partial<AccountHostOptions> = {}): AccountHost {
  const made = new AccountHost({
    ...plainHost,
    sweepMs: 2_000,
    hostId,
    bus,
    journal,
    lookups: new MemoryLookupStore(medium),
    states,
    mailer: { send: async () => {} },
    bounds: { checkpointBytesMin: 4096 },
    ...more,
  })
  made.start()
  return made
}

function request(accountId: string, operation: AccountOperation): AccountRequest {
  return {
    accountId,
    requestId: mintRequestId(Date.now()),
    deadlineMs: Date.now() + 10_000,
    caller: { who: { $case: 'visitor', value: { accountId: '' } } },
    clientNetwork: undefined,
    clientRequest: undefined,
    traceparent: undefined,
    tierNeeded: '',
    operation,
  }
}

function file(name: string): AccountOperation {
  const blob = { id: randomBytes(48), incarnation: randomBytes(16), size: 1000, crc32: 1, placementGroup: 0 }
  return {
    $case: 'addFile',
    value: {
      name,
      mimetype: 'text/plain',
      blob,
      createAccount: { tokenKeyId: 1, email: undefined, isNewId: true },
      folderId: undefined,
      modTime: undefined,
    },
  }
}

async function replicaOf(account: string): Promise<JournalReplica> {
  const ownership = await journal.acquire(account, { owner: 'replication' })
  const through = ownership.root === undefined ? 0 : CheckpointRoot.decode(ownership.root).through
  const rows = await Array.fromAsync(journal.rows(ownership, through))
  return { root: ownership.root, through, rows, page: (name) => journal.page(account, name) }
}

async function asked(account: string, operation: AccountOperation): Promise<AccountReply> {
  const message = AccountRequest.encode(request(account, operation)).finish()
  return AccountReply.decode(await bus.request(replicaSubjectOf('far'), message, { timeoutMs: 5_000 }))
}

t.test('only content that a visitor may read is answered, and never a refusal', async (t) => {
  const home = host('home')
  const client = new RoutedAccountClient({
    ...plainClient,
    bus,
    hostOf: () => 'home',
  })
  const account = ring.ids.account('na-nyc')
  const made = await client.call(
    { ...request(account, file('kept.txt')), caller: { who: { $case: 'operator', value: {} } } },
    {},
  )
  const item = made.result?.$case === 'content' ? made.result.value.item : undefined
  if (item === undefined) throw new Error(`no item: ${JSON.stringify(made)}`)
  await home.close({ drainMs: 0 })
  let arrived = true
  const far = host('far', {
    hostOf: () => 'home',
    replicaOf: async (id) => (arrived ? replicaOf(id) : undefined),
  })
  t.teardown(() => far.close({ drainMs: 0 }))

  const read = await asked(account, { $case: 'openFile', value: { contentId: item.id, password: undefined } })
  t.equal(read.result?.$case, 'file')
  const other = await asked(account, {
    $case: 'openFile',
    value: { contentId: ring.ids.content(account), password: undefined },
  })
  t.equal(other.result?.$case, 'unavailable', 'a file that is not known may not have arrived')
  t.equal((await asked(account, { $case: 'getAccount', value: {} })).result?.$case, 'unavailable')
  t.equal((await asked(account, file('new.txt'))).result?.$case, 'unavailable')
  arrived = false
  const unknown = await asked(ring.ids.account('na-nyc'), {
    $case: 'openFile',
    value: { contentId: item.id, password: undefined },
  })
  t.equal(unknown.result?.$case, 'unavailable', 'data that has not arrived is no absence')
})

t.test('accounts that wait to be read here are bounded', async (t) => {
  const gate = Promise.withResolvers<undefined>()
  const far = host('far', { hostOf: () => 'home', replicaOf: () => gate.promise })
  t.teardown(() => far.close({ drainMs: 0 }))
  const ask = (account = ring.ids.account('na-nyc')) =>
    asked(account, {
      $case: 'openFile',
      value: { contentId: ring.ids.content(account), password: undefined },
    })
  const waiting = Array.from({ length: 4 + 64 }, () => ask())
  const more = await ask()
  t.match(more.result, { $case: 'unavailable', value: { overloaded: true } })
  gate.resolve(undefined)
  for (const { result } of await Promise.all(waiting))
    t.match(result, { $case: 'unavailable', value: { overloaded: false } })
  t.match((await ask()).result, { $case: 'unavailable', value: { overloaded: false } })
})
