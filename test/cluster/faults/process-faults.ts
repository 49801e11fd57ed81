/** Processes that die, pause, join and leave. */
import { type Fault, home, livesIn } from './fault.ts'
import type { Stage } from './stage.ts'

interface KillOptions extends Partial<Fault> {
  /** How long it stays away, in the short form and in the long one. */
  awayMs?: [short: number, long: number]
}

function kill(what: string, name: string, { awayMs = [3_000, 10_000], ...more }: KillOptions = {}): Fault {
  return {
    name: `kill -9 of ${what}`,
    touches: livesIn(home),
    recovers: 'itself',
    async run(stage) {
      await stage.kill(name)
      await stage.pause(awayMs[stage.long ? 1 : 0])
      await stage.restart(name)
    },
    ...more,
  }
}

const host = `${home}-actor-1`
const touchesHost: Fault['touches'] = (person, stage) => stage.hostOf(person) === host

export const processFaults: readonly Fault[] = [
  kill('an API frontend', `${home}-api-1`),
  kill('an upload frontend', `${home}-upload-1`),
  kill('an actor host', host, { touches: touchesHost, daily: true }),
  kill('a storage node', `${home}-storage-1`),
  kill('a nats-server, which stays away', `${home}-nats`, {
    recovers: 'repaired',
    awayMs: [10_000, 60_000],
  }),
  kill('Cassandra', `${home}-cassandra`, { recovers: 'repaired' }),
  {
    name: 'Cassandra paused: conditional writes time out',
    touches: livesIn(home),
    recovers: 'repaired',
    run: (stage) => paused(stage, `${home}-cassandra`, () => stage.pause(15_000)),
  },
  {
    name: 'an actor host paused until others had its accounts, then continued',
    touches: touchesHost,
    recovers: 'itself',
    async run(stage) {
      const touched = stage.people.filter((person) => touchesHost(person, stage))
      await paused(stage, host, () =>
        stage.untilServed(touched, { since: stage.beganMs, kinds: ['change', 'look'] }),
      )
    },
  },
  {
    name: 'membership changing every second: two actor hosts join and leave',
    touches: livesIn(home),
    recovers: 'itself',
    async run(stage) {
      stage.began()
      const guests = await Promise.all(['guest-1', 'guest-2'].map((name) => stage.comeAndGo(host, name)))
      await stage.pause(stage.long ? 60_000 : 10_000)
      const times = await Promise.all(guests.map((guest) => guest.end()))
      stage.ended()
      if (times.some((count) => count < 2)) throw new Error(`they joined ${times.join(' and ')} times`)
    },
  },
]

async function paused(stage: Stage, name: string, meanwhile: () => Promise<void>): Promise<void> {
  await stage.signal(name, 'SIGSTOP')
  stage.began()
  try {
    await meanwhile()
  } finally {
    await stage.signal(name, 'SIGCONT')
    stage.ended()
  }
}
