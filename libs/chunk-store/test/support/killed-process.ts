/**
 * Uploads and deletes without end, and reports acknowledgements on stdout. The test starts it and
 * kills it.
 */

import { randomInt } from 'node:crypto'
import { writeSync } from 'node:fs'
import { hex } from '@holdfast/kernel'
import { ChunkStore } from '../../src/index.ts'
import { content, realOptions } from './crash-history.ts'

const store = await ChunkStore.open({ path: process.argv[2] as string, ...realOptions })

async function client(): Promise<void> {
  for (;;) {
    const number = randomInt(1_000_000)
    const bytes = content(number)
    if (bytes.length < 8) continue // others may have the same content, and delete it
    const stage = await store.stage()
    for (let at = 0; at < bytes.length; at += 100_000) await stage.write(bytes.subarray(at, at + 100_000))
    if (number % 13 === 0) {
      await stage.abort()
      continue
    }
    const info = await stage.commit({ pinMs: 0 })
    const name = `${hex(info.id)} ${hex(info.incarnation)}`
    // One write per line, synchronous: the parent knows of it before this process continues.
    if (number % 3 > 0) writeSync(1, `kept ${name} ${number}\n`)
    else if ((await store.delete(info)) === 'deleted') writeSync(1, `deleted ${name} ${number}\n`)
  }
}

await Promise.all(Array.from({ length: 8 }, client))
