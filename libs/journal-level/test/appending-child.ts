/**
 * Appends to several accounts until it is killed, and reports each acknowledged append on standard
 * output. Each row is issued together with the lookup row that it needs, without waiting in
 * between.
 */

import { writeSync } from 'node:fs'
import { LevelMetadataStore } from '../src/index.ts'
import { testMetadataStore } from '../src/testing.ts'
import { rowText } from './expected.ts'

const [path = '', accounts = '1'] = process.argv.slice(2)
const { journals, lookups } = await LevelMetadataStore.open({ ...testMetadataStore, path })

async function append(account: string): Promise<never> {
  const ownership = await journals.acquire(account, { owner: 'child' })
  for (;;) {
    const seq = ownership.head + 1
    const needed = lookups.write([{ put: `ref/${account}/${seq}`, value: Buffer.from(`${seq}`) }])
    const appended = journals.append(ownership, Buffer.from(rowText(account, seq)))
    await Promise.all([needed, appended])
    writeSync(1, `append ${account} ${seq}\n`)
    if (seq % 10 === 0) writeSync(1, `take ${await lookups.take('codes', 3)}\n`)
  }
}

await Promise.all(Array.from({ length: Number(accounts) }, (_, at) => append(`account-${at}`)))
