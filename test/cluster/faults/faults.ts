/** What is done to the cluster while people work on it. */
import assert from 'node:assert/strict'
import type { Kind } from './load.ts'
import type { Person } from './people.ts'
import { raceForPlaces } from './quota-race.ts'
import type { Stage } from './stage.ts'

export interface Fault {
  name: string
  /** Who may notice; everybody else must not. */
  touches: (person: Person, stage: Stage) => boolean
  /** What must work again. */
  kinds: readonly Kind[]
  /** Whether the cluster gets over it by itself, or when it is repaired: from then on recovery counts. */
  recovers: 'itself' | 'repaired'
  /** Every change is sent twice. */
  doubled?: boolean
  run: (stage: Stage) => Promise<void>
}

const home = 'eu-par'
const other = 'na-nyc'
const kinds: readonly Kind[] = ['change', 'look', 'upload', 'download']

function livesIn(region: string): (person: Person) => boolean {
  return (person) => person.region === region
}

function nobody(): boolean {
  return false
}

interface Killing extends Partial<Fault> {
  /** How long it stays away in the short form and in the long one; 3 s and 10 s unless told. */
  awayMs?: [short: number, long: number]
}

function kill(what: string, name: string, { awayMs = [3_000, 10_000], ...more }: Killing = {}): Fault {
  return {
    name: `kill -9 of ${what}`,
    touches: livesIn(home),
    kinds,
    recovers: 'itself',
    async run(stage) {
      await stage.kill(name)
      await stage.pause(awayMs[stage.long ? 1 : 0])
      await stage.restart(name)
    },
    ...more,
  }
}

/** Who works with the frontends of his own region must not notice. */
function cut(what: string, ways: readonly (readonly [from: string, to: string])[], times = 1): Fault {
  return {
    name: `the link between the regions ${what}`,
    touches: nobody,
    kinds,
    recovers: 'repaired',
    async run(stage) {
      const eachMs = times > 1 ? 1_000 : stage.long ? 30_000 : 8_000
      stage.began()
      try {
        for (let time = 0; time < times * (stage.long ? 5 : 1); time++) {
          if (time > 0) await stage.pause(eachMs)
          for (const [from, to] of ways) await stage.link({ from, to, cut: true })
          await stage.pause(eachMs)
          for (const [from, to] of ways) await stage.link({ from, to, cut: false })
        }
      } finally {
        for (const [from, to] of ways) await stage.link({ from, to, cut: false })
        stage.ended()
      }
    },
  }
}

const there = [home, other] as const
const back = [other, home] as const

export const faults: readonly Fault[] = [
  kill('an API frontend', `${home}-api-1`),
  kill('an upload frontend', `${home}-upload-1`),
  kill('an actor host', `${home}-actor-1`, {
    touches: (person, stage) => stage.hostOf(person) === `${home}-actor-1`,
  }),
  kill('a storage node', `${home}-storage-1`),
  kill('a nats-server, which stays away', `${home}-nats`, { recovers: 'repaired', awayMs: [10_000, 60_000] }),
  kill('Cassandra', `${home}-cassandra`, { recovers: 'repaired' }),
  {
    name: 'an actor host paused until others had its accounts, then continued',
    touches: (person, stage) => stage.hostOf(person) === `${home}-actor-1`,
    kinds,
    recovers: 'itself',
    async run(stage) {
      await stage.signal(`${home}-actor-1`, 'SIGSTOP')
      stage.began()
      try {
        const touched = stage.people.filter((person) => this.touches(person, stage))
        await stage.untilServed(touched, { since: stage.beganMs, kinds: ['change', 'look'] })
      } finally {
        await stage.signal(`${home}-actor-1`, 'SIGCONT')
        stage.ended()
      }
    },
  },
  {
    name: '200 uploads at once for the last 10 places of a quota',
    touches: nobody,
    kinds,
    recovers: 'itself',
    async run(stage) {
      stage.began()
      const { told, kept } = await raceForPlaces(stage.regions, { uploads: 200, places: 10 })
      stage.ended()
      assert.deepEqual({ told, kept }, { told: { ok: 10, 'error-limits': 190 }, kept: [10, 10] })
    },
  },
  {
    name: 'Cassandra paused: conditional writes time out',
    touches: livesIn(home),
    kinds,
    recovers: 'repaired',
    async run(stage) {
      await stage.signal(`${home}-cassandra`, 'SIGSTOP')
      stage.began()
      await stage.pause(15_000)
      await stage.signal(`${home}-cassandra`, 'SIGCONT')
      stage.ended()
    },
  },
  cut('cut one way', [there]),
  cut('cut the other way', [back]),
  cut('cut both ways', [there, back]),
  cut('flapping', [there, back], 4),
]
