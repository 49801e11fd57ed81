/** The process of one attack. Its parent sends the target, and when to end. */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AttackInput, Target } from './attack.ts'
import { attacks } from './attacks.ts'
import { HostileClient } from './hostile.ts'

export interface Order {
  attack: string
  target: Target
  prepared: AttackInput
}

export interface SendCounts {
  inputs: number
  connections: number
  tally: Record<string, number>
}

/** Every attack ends within this time once its connections are closed. */
const puttingRightMs = 3_000

const ending = new AbortController()
process.once('message', (order: Order) => {
  void run(order)
})
process.on('disconnect', () => process.exit())

async function run({ attack: name, target, prepared }: Order): Promise<void> {
  const attack = attacks.find((one) => one.name === name)
  if (attack === undefined) throw new Error(`no attack is called ${name}`)
  const hostile = new HostileClient(target, prepared, ending.signal)
  const running = attack.run(hostile)
  await once(process, 'message')
  ending.abort()
  // The attack's own repairs are done before it counts as over.
  await Promise.race([running, sleep(puttingRightMs)])
  const { inputs, connections, tally } = hostile
  process.send?.({ inputs, connections, tally } satisfies SendCounts)
}
