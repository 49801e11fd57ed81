/**
 * Random faults of the stores under random load on two hosts that both may serve. A seed repeats
 * the faults and the requests. `HOLDFAST_CHAOS_SEEDS=1-500` runs more.
 */

import type { MemoryOperation } from '@holdfast/journal/testing'
import { mintRequestId } from '@holdfast/kernel'
import type { AccountOperation } from '@holdfast/wire'
import t, { type Test } from 'tap'
import { blob } from './tiny-core.ts'
import { itemsOf, routeOf, settled, statusOf, World } from './world.ts'

const operations: MemoryOperation[] = [
  'acquire',
  'rows',
  'append',
  'append',
  'append',
  'head',
  'putPage',
  'page',
  'deletePages',
  'setRoot',
  'trim',
  'release',
  'lookup.write',
  'lookup.write',
  'lookup.get',
  'lookup.take',
]

/** mulberry32. */
function dice(seed: number): (sides: number) => number {
  let state = seed >>> 0
  return (sides) => {
    state = (state + 0x6d2b79f5) >>> 0
    let z = Math.imul(state ^ (state >>> 15), state | 1)
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61)
    return ((z ^ (z >>> 14)) >>> 0) % sides
  }
}

async function storm(t: Test, seed: number): Promise<void> {
  const roll = dice(seed)
  const world = new World({ ordered: roll(2) === 0, exclusive: false })
  const bounds = {
    checkpointBytesMin: 500,
    codesDrawn: 64,
    effectsIdleMs: 2,
    takeoversPerMinuteMax: 1_000_000,
    // In every other storm each change is applied in slices, with the loop turning between them.
    turnMs: 8 * (seed % 2),
  }
  world.host('one', { bounds })
  world.host('two', { bounds })
  await world.create()
  /** The effect of each name's last acknowledged change: present or absent. */
  const acknowledged = new Map<string, boolean>()

  const faults: (() => void)[] = []
  const heal = (fault: () => void) => void faults.push(fault)
  const user = async (number: number) => {
    for (let step = 0; step < 12; step++) {
      if (roll(3) === 0)
        heal(
          world.medium.fail(operations[roll(operations.length)] as MemoryOperation, {
            code: roll(3) === 0 ? 'UNKNOWN' : 'UNAVAILABLE',
            applied: false,
            times: 1 + roll(2),
          }),
        )
      else if (roll(4) === 0) heal(world.medium.fail('append', { code: 'UNKNOWN', applied: true }))
      if (roll(6) === 0) world.hostId = world.hostId === 'one' ? 'two' : 'one'
      const name = `${number}/${roll(4)}`
      const there = acknowledged.get(name) === true
      const operation: AccountOperation = there
        ? {
            $case: 'deleteContents',
            value: { contentIds: [name], representation: undefined, heldSeconds: undefined },
          }
        : roll(2) === 0
          ? {
              $case: 'createFolder',
              value: { parentFolderId: '', name, isPublic: undefined, modTime: undefined },
            }
          : {
              $case: 'addFile',
              value: {
                name,
                mimetype: '',
                blob: blob(1 + roll(3)),
                createAccount: undefined,
                folderId: undefined,
                modTime: undefined,
              },
            }
      const reply = await world.ask(operation, { id: mintRequestId(Date.now()), timeoutMs: 20_000 })
      t.equal(statusOf(reply), 'ok', `seed ${seed}: ${operation.$case} ${name}`)
      acknowledged.set(name, !there)
      if (roll(3) === 0) {
        const names = await world.names({ timeoutMs: 20_000 })
        if (names.includes(name) === there) t.fail(`seed ${seed}: read does not show ${name}`)
      }
    }
  }
  await Promise.all([1, 2, 3, 4, 5].map(user))

  for (const end of faults) end()
  const expected = [...acknowledged].filter(([, there]) => there).map(([name]) => name)
  const items = itemsOf(await world.ask({ $case: 'getAccount', value: {} }))
  t.strictSame(
    items.map(({ name }) => name).sort(),
    expected.sort(),
    `seed ${seed}: what was acknowledged, once`,
  )
  const folders = items.filter(({ isFolder }) => isFolder)
  for (const { code, name } of folders)
    if ((await routeOf(world, code)) !== world.account)
      t.fail(`seed ${seed}: the code of ${name} leads nowhere`)
  t.equal(
    new Set(folders.map(({ code }) => code)).size,
    folders.length,
    `seed ${seed}: each code is one's own`,
  )
  await Promise.all(world.hosts.map((host) => host.close({ drainMs: 3000 })))
  world.host('three', { bounds })
  world.hostId = 'three'
  t.strictSame(
    (await world.names({ timeoutMs: 20_000 })).sort(),
    expected,
    `seed ${seed}: also for the next host`,
  )
  for (let turn = 0; turn < 10; turn++) await settled()
  // An extra reference is swept later; a missing one is lost bytes.
  const references = new Set((await world.keys('ref/')).map((key) => key.slice(4, 6)))
  for (const byte of world.states.usedBlobs(world.account)) {
    if (!references.has(byte)) t.fail(`seed ${seed}: blob ${byte} is used without a reference`)
  }
  await world.close()
}

t.test('acknowledged changes survive any faults of the stores, each once', async (t) => {
  const { HOLDFAST_CHAOS_SEEDS: range = '1-5' } = process.env
  const [first = 1, last = 1] = range.split('-').map(Number)
  for (let seed = first; seed <= last; seed++) await storm(t, seed)
})
