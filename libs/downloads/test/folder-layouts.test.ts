import { RefusalError } from '@holdfast/http-kit'
import type { Clock } from '@holdfast/kernel'
import { type ArchiveView, blank, Manifest, ManifestEntry } from '@holdfast/wire'
import t from 'tap'
import { FolderLayouts, type FolderNow } from '../src/folder-layouts.ts'

const version = (text: string) => Buffer.from(text)

function viewOf(name: string, { ends, said = name }: { ends?: number; said?: string } = {}): ArchiveView {
  const entries = [{ ...blank(ManifestEntry), isFolder: true, name }]
  const page = Buffer.from(Manifest.encode({ entries }).finish())
  return { version: version(said), ends, pages: [page], entries: entries.length }
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
