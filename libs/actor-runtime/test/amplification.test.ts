/** Rows, pages and roots that a large account writes, against its size at the end. */

import { createHash } from 'node:crypto'
import { MemoryBus } from '@holdfast/bus'
import { createAccountStates } from '@holdfast/content-tree'
import { plainSettings } from '@holdfast/content-tree/testing'
import type { JournalOwnership } from '@holdfast/journal'
import { MemoryJournalStore, MemoryLookupStore, MemoryMedium } from '@holdfast/journal/testing'
import { Keyring, mintRequestId, silentLog, systemClock } from '@holdfast/kernel'
import { type AccountOperation, type AccountReply, AccountRequest, blank } from '@holdfast/wire'
import t from 'tap'
import { sizeOf } from '../../../test/forms.ts'
import { AccountHost } from '../src/index.ts'
import { plainHost } from '../src/testing.ts'

const contents = sizeOf('writtenContents')
const atOnce = 250

class CountingJournal extends MemoryJournalStore {
  /** Bytes. */
  readonly written = { rows: 0, pages: 0, roots: 0 }

  override append(ownership: JournalOwnership, row: Uint8Array): Promise<void> {
    this.written.rows += row.length
    return super.append(ownership, row)
  }

  override putPage(account: string, name: string, bytes: Uint8Array): Promise<void> {
    this.written.pages += bytes.length
    return super.putPage(account, name, bytes)
  }

  override setRoot(
    ownership: JournalOwnership,
    options: { root: Uint8Array; through: number },
  ): Promise<void> {
    this.written.roots += options.root.length
    return super.setRoot(ownership, options)
  }

  /** Bytes of what is stored now. */
  async stored(account: string): Promise<number> {
    let sum = 0
    for await (const name of this.pageNames(account)) sum += (await this.page(account, name))?.length ?? 0
    return sum
  }
}

t.test(`an account of ${contents} contents wrote at most 4 times what it takes`, async (t) => {
  const ring = new Keyring(Buffer.alloc(32, 7))
  const medium = new MemoryMedium()
  const journal = new CountingJournal(medium)
  const host = new AccountHost({
    ...plainHost,
    sweepMs: 2_000,
    hostId: 'one',
    bus: new MemoryBus(),
    journal,
    lookups: new MemoryLookupStore(medium),
    states: createAccountStates(plainSettings(ring)),
    mailer: { send: async () => {} },
    log: {
      ...silentLog,
      warn: (fields, message) => t.fail(message, fields),
      error: (fields, message) => t.fail(message, fields),
    },
  })
  host.start()
  const accountId = ring.ids.account('eu-par')
  const ask = async (operation: AccountOperation): Promise<AccountReply> => {
    const nowMs = systemClock.now()
    const request: AccountRequest = {
      ...blank(AccountRequest),
      accountId,
      requestId: mintRequestId(nowMs),
      caller: { who: { $case: 'operator', value: {} } },
      deadlineMs: nowMs + 60_000,
      operation,
    }
    const reply = await host.take(request)
    if (reply === undefined || reply.result?.$case === 'refusal' || reply.result?.$case === 'unavailable')
      throw new Error(JSON.stringify(reply))
    return reply
  }
  const upload = (at: number, folderId?: string) =>
    ask({
      $case: 'addFile',
      value: {
        modTime: undefined,
        name: `IMG_2026_${String(at).padStart(9, '0')}.jpg`,
        mimetype: 'image/jpeg',
        blob: blobOf(at),
        folderId,
        createAccount:
          folderId === undefined ? { tokenKeyId: 1, email: undefined, isNewId: true } : undefined,
      },
    })
  const { result } = await upload(0)
  const folderId = result?.$case === 'content' ? result.value.item?.parentFolder : undefined
  for (let at = 1; at < contents; at += atOnce)
    await Promise.all(
      Array.from({ length: Math.min(atOnce, contents - at) }, (_, n) => upload(at + n, folderId)),
    )
  await host.close({ drainMs: 10_000 })
  const size = await journal.stored(accountId)
  const { rows, pages, roots } = journal.written
  t.comment({ size, rows, pages, roots })
  const times = (rows + pages + roots) / size
  t.ok(times <= 4, `${rows} bytes of rows, ${pages} of pages and ${roots} of roots for ${size}: ${times}`)
})

function blobOf(at: number) {
  const digest = createHash('sha512').update(`${at}`).digest()
  return {
    id: digest.subarray(0, 48),
    incarnation: digest.subarray(48, 64),
    size: 1_000,
    crc32: at,
    placementGroup: at % 7,
  }
}
