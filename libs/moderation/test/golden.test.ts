/** Rows of moderation: stores have them. */

import { MemoryLookupStore } from '@holdfast/journal/testing'
import { hex } from '@holdfast/kernel'
import t from 'tap'
import { sameAsGolden } from '../../../infra/golden.ts'
import { BlockLists, blockLists, Reports, TransferLog } from '../src/index.ts'

const nowMs = 1_700_000_000_000
const clock = { now: () => nowMs, monotonic: () => nowMs }
const account = '6ba7b810-9dad-41d1-80b4-00c04fd430c8'
const content = '6ba7b811-9dad-41d1-80b4-00c04fd430c8'
const asked = { by: 'ann', reason: 'a mail' }
const names = {
  account,
  content: '0cc175b9c0f1b6a831c399e269772661',
  network: '192.0.2.0/24',
  invitation: 'bob@example.org',
}

t.test('rows of acts, lists, reports and transfers', async (t) => {
  const lookups = new MemoryLookupStore()
  const lists = await BlockLists.open({ lookups, clock, onChange: undefined })
  t.strictSame(Object.keys(names).sort(), [...blockLists].sort())
  for (const list of blockLists) await lists.block(list, [names[list]], asked)
  const { id } = await lists.acts.add({
    ...asked,
    kind: 'delete',
    what: content,
    undoes: undefined,
    account,
    heldUntil: 1,
  })
  await lists.acts.noteDeleted(id, { account, contents: [content, account] })
  const networkOf = (address: string) => address
  const reports = new Reports({ lookups, clock, acts: lists.acts, networkOf })
  const report = {
    content,
    account,
    category: 'other',
    text: 'bad',
    contact: 'a@b.org',
    address: '::1',
  } as const
  const first = await reports.add(report)
  await reports.decide(first.id, 'accepted', asked)
  await reports.add(report)
  const log = new TransferLog({
    ...{ lookups, clock, networkOf, days: { upload: 7, download: 7 }, rowsPerHourMax: 10 },
    ...{ timers: { after: () => () => {} }, isClockOff: () => false, onFault: t.error },
  })
  const blob = Buffer.concat([Buffer.alloc(16, 1), Buffer.alloc(32, 2)])
  const transfer = { address: '::1', account, content, name: 'a.txt', size: 5 }
  log.note({ ...transfer, kind: 'upload', blob })
  log.note({ ...transfer, kind: 'download', blob: undefined })
  await log.flush()

  const lines: string[] = []
  for await (const { key, value } of lookups.scan(''))
    lines.push(`${key} = ${key.startsWith(`acts/${id}/`) ? hex(value) : Buffer.from(value).toString()}`)
  sameAsGolden(t, import.meta.dirname, 'rows.txt', lines.map(drawnMasked).sort())
})

/** Ids keep their time, which is counted backwards; the rest of them is drawn. */
function drawnMasked(line: string): string {
  return line
    .replaceAll(/(\d{13})-[0-9a-z]+/g, '$1-<drawn>')
    .replace(/\/[0-9a-f]{16} = /, '/<drawn> = ')
    .replace(/= [0-9a-f-]{36}$/, '= <drawn>')
}
