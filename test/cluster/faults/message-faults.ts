/** Faults of messages, and of concurrency. */
import assert from 'node:assert/strict'
import { type Fault, home, noAccount, other } from './fault.ts'
import { raceForPlaces } from './quota-race.ts'
import { deliverTwice } from './second-delivery.ts'
import type { Stage } from './stage.ts'

type Way = readonly [from: string, to: string]
const there: Way = [home, other]
const back: Way = [other, home]

/** Users of the frontends of their own region must not notice. */
function cut(what: string, ways: readonly Way[], times = 1): Fault {
  return {
    name: `the link between the regions ${what}`,
    touches: noAccount,
    touchesAbroad: true,
    recovers: 'repaired',
    async run(stage) {
      const eachMs = times > 1 ? 1_000 : stage.long ? 30_000 : 6_000
      stage.began()
      try {
        for (let time = 0; time < times * (stage.long ? 5 : 1); time++) {
          if (time > 0) await stage.pause(eachMs)
          await all(stage, ways, true)
          await stage.pause(eachMs)
          await all(stage, ways, false)
        }
      } finally {
        await all(stage, ways, false)
        stage.ended()
      }
    },
  }
}

async function all(stage: Stage, ways: readonly Way[], isCut: boolean): Promise<void> {
  for (const [from, to] of ways) await stage.link({ from, to, cut: isCut })
}

export const messageFaults: readonly Fault[] = [
  cut('cut one way', [there]),
  { ...cut('cut the other way', [back]), longOnly: true },
  { ...cut('cut both ways', [there, back]), daily: true },
  cut('flapping', [there, back], 4),
  {
    name: 'every command delivered twice, by the bus and by clients',
    touches: noAccount,
    recovers: 'itself',
    doubled: true,
    async run(stage) {
      const hosts = stage.regions.flatMap(({ code }) => stage.namesOf('actor-host', code))
      stage.began()
      const delivery = await deliverTwice(await stage.natsOf(home), hosts)
      await stage.pause(stage.long ? 20_000 : 5_000)
      await delivery.end()
      stage.ended()
      assert.ok(delivery.count > 0, 'no command was delivered twice')
    },
  },
  {
    name: '200 uploads at once for the last 10 places of a quota',
    touches: noAccount,
    recovers: 'itself',
    async run(stage) {
      stage.began()
      const { reported, kept } = await raceForPlaces(stage.regions, { uploads: 200, places: 10 })
      stage.ended()
      assert.deepEqual({ reported, kept }, { reported: { ok: 10, 'error-limits': 190 }, kept: [10, 10] })
    },
  },
]
