import { RefusalError } from '@holdfast/http-kit'
import type { Clock } from '@holdfast/kernel'
import { ArchiveView, blank, Manifest, ManifestEntry } from '@holdfast/wire'
import t from 'tap'
import { FolderLayouts, type FolderNow } from '../src/archives/folder-layouts.ts'

const version = (text: string) => Buffer.from(text)

function viewOf(name: string, { ends, said = name }: { ends?: number; said?: string } = {}): ArchiveView {
  const entries = [{ ...blank(ManifestEntry), isFolder: true, name }]
  const page = Buffer.from(Manifest.encode({ entries }).finish())
  return { ...blank(ArchiveView), version: version(said), ends, pages: [page], entries: entries.length }
}

class HandClock implements Clock {
  nowMs = 1_000_000
  now = () => this.nowMs
  monotonic = () => this.nowMs
}

/** Requests that the test answers, in the order in which they were sent. */
class Account {
  readonly asked: PromiseWithResolvers<ArchiveView>[] = []
  now(said: string, folder = 'folder'): FolderNow {
    const take = () => {
      const answer = Promise.withResolvers<ArchiveView>()
      this.asked.push(answer)
      return answer.promise
    }
    return { folder, version: version(said), network: 'here', take }
  }
}

t.test('concurrent requests for one version share one manifest', async (t) => {
  const layouts = new FolderLayouts({ clock: new HandClock() })
  const account = new Account()
  const all = [layouts.of(account.now('v1')), layouts.of(account.now('v1')), layouts.of(account.now('v1'))]
  const other = layouts.of(account.now('v1', 'other'))
  t.equal(account.asked.length, 2)
  account.asked[0]?.resolve(viewOf('v1'))
  account.asked[1]?.resolve(viewOf('other', { said: 'v1' }))
  const [first, ...rest] = await Promise.all(all)
  for (const laid of rest) t.equal(laid, first)
  t.equal((await other).name, 'other')
  t.equal(await layouts.of(account.now('v1')), first, 'later too')
  t.equal(account.asked.length, 2)
  const changed = layouts.of(account.now('v2'))
  t.equal(account.asked.length, 3)
  account.asked[2]?.resolve(viewOf('v3'))
  t.equal((await changed).name, 'v3')
  t.equal((await layouts.of(account.now('v3'))).name, 'v3', 'it was newer than requested')
  t.equal(account.asked.length, 3)
})

t.test(
  'a link that closes to one caller does not close to others that wait; a fault is shared by all',
  async (t) => {
    const layouts = new FolderLayouts({ clock: new HandClock() })
    const account = new Account()
    const leader = layouts.of(account.now('v1'))
    const follower = layouts.of(account.now('v1'))
    account.asked[0]?.reject(new RefusalError('error-notFound'))
    await t.rejects(leader, new RefusalError('error-notFound'))
    while (account.asked.length < 2) await new Promise(setImmediate)
    account.asked[1]?.resolve(viewOf('v1'))
    t.equal((await follower).name, 'v1')

    const faulty = [layouts.of(account.now('v2')), layouts.of(account.now('v2'))]
    account.asked[2]?.reject(new RefusalError('error-unavailable'))
    for (const one of faulty) await t.rejects(one, new RefusalError('error-unavailable'))
    t.equal(account.asked.length, 3)
  },
)

t.test('a layout ends with the earliest expiry of a folder in it', async (t) => {
  const clock = new HandClock()
  const layouts = new FolderLayouts({ clock })
  const account = new Account()
  const ends = clock.nowMs / 1000 + 5
  const first = layouts.of(account.now('v1'))
  account.asked[0]?.resolve(viewOf('v1', { ends }))
  await first
  clock.nowMs += 4_999
  t.equal(await layouts.of(account.now('v1')), await first)
  clock.nowMs += 1
  const next = layouts.of(account.now('v1'))
  t.equal(account.asked.length, 2)
  const waits = layouts.of(account.now('v1'))
  account.asked[1]?.resolve(viewOf('again', { said: 'v1' }))
  t.equal(await next, await waits)
  t.not(await next, await first)
})

t.test('requests for many versions of a folder share what is made next', async (t) => {
  const layouts = new FolderLayouts({ clock: new HandClock() })
  const account = new Account()
  const first = layouts.of(account.now('v1'))
  const all = Array.from({ length: 20 }, (_, at) => layouts.of(account.now(`v${at + 2}`)))
  t.equal(account.asked.length, 1, 'one is made at a time')
  account.asked[0]?.resolve(viewOf('v1'))
  t.equal((await first).name, 'v1')
  while (account.asked.length < 2) await new Promise(setImmediate)
  const later = layouts.of(account.now('v22'))
  account.asked[1]?.resolve(viewOf('v21'))
  for (const laid of await Promise.all(all)) t.equal(laid.name, 'v21', 'asked for after all of them')
  while (account.asked.length < 3) await new Promise(setImmediate)
  account.asked[2]?.resolve(viewOf('v22'))
  t.equal((await later).name, 'v22', 'it came after the question')
})

t.test('networks take turns when many layouts are to be made', async (t) => {
  const layouts = new FolderLayouts({ clock: new HandClock() })
  const account = new Account()
  const order: string[] = []
  const ask = (folder: string, network: string) => {
    const now = account.now('v1', folder)
    const take = () => {
      order.push(folder)
      return now.take()
    }
    return layouts.of({ ...now, network, take })
  }
  const all = ['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7'].map((folder) => ask(folder, 'a'))
  all.push(ask('b1', 'b'))
  for (let answered = 0; answered < all.length; answered++) {
    while (account.asked.length <= answered) await new Promise(setImmediate)
    account.asked[answered]?.resolve(viewOf('name', { said: 'v1' }))
  }
  await Promise.all(all)
  t.strictSame(order, ['a1', 'a2', 'a3', 'a4', 'a5', 'b1', 'a6', 'a7'])
})
