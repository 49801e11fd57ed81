/**
 * Runs under `ulimit -n 256`: writes until descriptors run out, frees them, and reports the store's
 * behaviour. One line of JSON.
 *
 * Arguments: the store's directory.
 */

import { closeSync, openSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { LevelMetadataStore } from '../src/index.ts'
import { testMetadataStore } from '../src/testing.ts'

const [, , path = ''] = process.argv
const row = (number: number) => Buffer.alloc(60_000, `row ${number} `)

const reported: string[] = []
const store = await LevelMetadataStore.open({
  ...testMetadataStore,
  path,
  onFailure: ({ message }) => reported.push(message),
  onReopened: () => reported.push('reopened'),
})
const ownership = await store.journals.acquire('one', { owner: 'host' })
await store.journals.append(ownership, row(1))

const held: number[] = []
try {
  for (;;) held.push(openSync('/dev/null', 'r'))
} catch {
  // All are in use now.
}
// LevelDB notices when its log is full and it needs another file.
let fault: { code?: string; message?: string } = {}
while (fault.code === undefined) {
  try {
    await store.journals.append(ownership, row(ownership.head + 1))
  } catch (error) {
    fault = error as Error
  }
}
const acknowledged = ownership.head
await pause(500)
const startedMs = performance.now()
const refusal = await store.lookups.write([{ put: 'now', value: Buffer.from('x') }]).then(
  () => 'written',
  (error: { code: string }) => error.code,
)
const refusedMs = performance.now() - startedMs
const readDuring = await countRows()
const failing = store.failing !== undefined

for (const fd of held) closeSync(fd)
for (let tries = 0; store.failure !== undefined && tries < 1_000; tries++) await pause(20)
const { head, chain } = await store.journals.head('one')
Object.assign(ownership, { head, chain })
await store.journals.append(ownership, row(head + 1))
const wellAgain = store.failing === undefined
const after = await countRows()
await store.close()
console.log(
  JSON.stringify({
    reported,
    fault,
    acknowledged,
    refusal,
    refusedMs,
    readDuring,
    failing,
    head,
    after,
    wellAgain,
  }),
)

async function countRows(): Promise<number> {
  let count = 0
  for await (const { seq, bytes } of store.journals.rows(ownership, 0)) {
    if (!row(seq).equals(bytes)) throw new Error(`row ${seq} is another one`)
    count++
  }
  return count
}
