/** Ports with spans keep their contracts, and have spans only within a trace. */
import { MemoryBlobStore, readsWhole, sendsDirectly } from '@holdfast/blob-store'
import { blobStoreContract } from '@holdfast/blob-store/testing'
import {
  journalStoreContract,
  lookupStoreContract,
  MemoryJournalStore,
  MemoryLookupStore,
  MemoryMedium,
} from '@holdfast/journal/testing'
import { forTrace, type Tracer, traceparent, traceparentOf } from '@holdfast/kernel'
import t, { type Test } from 'tap'
import { tracedAccounts, tracedBlobs, tracedJournals, tracedLookups } from '../src/index.ts'

interface EndedSpan {
  name: string
  parent: string | undefined
  fault: string | undefined
}

/** Its spans are known by their names. */
function listing() {
  const ended: EndedSpan[] = []
  const tracer: Tracer = {
    begin: (name, { parent }) => ({
      traceparent: name,
      end: ({ fault } = {}) => void ended.push({ name, parent, fault }),
    }),
  }
  return { tracer, ended }
}

/** Everything in it belongs to a trace. */
const traced = (name: string, body: (t: Test) => Promise<void>) =>
  t.test(name, (t) => forTrace('root', () => body(t)))
const { tracer } = listing()

journalStoreContract({
  test: traced,
  open: async () => ({ journals: tracedJournals(new MemoryJournalStore(), tracer, 'memory') }),
})
lookupStoreContract({
  test: traced,
  open: async () => ({ lookups: tracedLookups(new MemoryLookupStore(), tracer, 'memory') }),
  linearizableWrites: true,
})
blobStoreContract<Test>({
  test: traced,
  passed: (t, name) => void t.pass(name),
  open: async () => tracedBlobs(new MemoryBlobStore(), tracer),
})

t.test('spans have their parents and faults, and there are none outside of traces', async (t) => {
  const { tracer, ended } = listing()
  const medium = new MemoryMedium()
  const journals = tracedJournals(new MemoryJournalStore(medium), tracer, 'memory')
  const ownership = await journals.acquire('one', { owner: 'host' })
  t.strictSame(ended, [])
  medium.fail('append', { code: 'UNKNOWN' })
  await forTrace('root', async () => {
    await t.rejects(journals.append(ownership, Buffer.from('row')), { code: 'UNKNOWN' })
  })
  t.strictSame(ended, [{ name: 'journal append', parent: 'root', fault: 'UNKNOWN' }])
})

t.test('a question to an account names the span of the question', async (t) => {
  const { tracer, ended } = listing()
  const asked: (string | undefined)[] = []
  const call = async (request: { traceparent: string | undefined }) => {
    asked.push(request.traceparent, traceparent())
    return { result: undefined }
  }
  const accounts = tracedAccounts({ call }, tracer)
  const question = {
    accountId: 'one',
    requestId: Buffer.alloc(16),
    caller: undefined,
    tierNeeded: '',
    clientNetwork: undefined,
    clientRequest: undefined,
    traceparent: undefined,
    operation: { $case: 'getAccount' as const, value: {} },
  }
  await accounts.call(question, {})
  await forTrace('root', () => accounts.call(question, {}))
  t.strictSame(asked, [undefined, undefined, 'ask getAccount', 'ask getAccount'])
  t.strictSame(ended, [{ name: 'ask getAccount', parent: 'root', fault: undefined }])
})

t.test('without a tracer a port stays as it is, and what it can do does not change', async (t) => {
  const blobs = new MemoryBlobStore()
  t.equal(tracedBlobs(blobs, undefined), blobs)
  for (const can of [readsWhole, sendsDirectly]) t.equal(can(tracedBlobs(blobs, tracer)), can(blobs))
})

t.test('only a traceparent of W3C Trace Context is one', async (t) => {
  const good = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
  t.equal(traceparentOf(good), good)
  const bad = [undefined, '', [good], `${good}-x`, good.replace('00', 'ff'), good.toUpperCase()]
  const zero = [good.replace(/a/g, '0'), good.replace(/b/g, '0')]
  for (const one of [...bad, ...zero]) t.equal(traceparentOf(one), undefined, String(one))
})
