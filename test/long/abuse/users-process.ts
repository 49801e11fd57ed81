/**
 * The ordinary users, in a separate process, so that only the service delays them. Its parent
 * sends: `begin` starts them, `progress` answers what they have seen so far, `end` lets them finish
 * their calls, `verify` looks for everything that was acknowledged. Each is answered when it is
 * done.
 */
import { type Sample, User, type UserOptions } from './users.ts'

export type Question = { ask: 'begin'; users: UserOptions[] } | { ask: 'progress' | 'end' | 'verify' }

export interface UsersReport {
  /** Since the last answer. */
  samples: Sample[]
  acknowledged: number
  lost: string[]
  strange: string[]
}

let users: User[] = []
let running: Promise<void>[] = []
let reported: number[] = []

process.on('message', (question: Question) => {
  void answer(question).then(() => process.send?.(seen()))
})
process.on('disconnect', () => process.exit())

async function answer(question: Question): Promise<void> {
  if (question.ask === 'begin') {
    users = question.users.map((options) => new User(options))
    reported = users.map(() => 0)
    running = users.map((user) => user.run())
  } else if (question.ask === 'end') {
    for (const user of users) user.stop()
    await Promise.all(running)
  } else if (question.ask === 'verify') {
    await Promise.all(users.map((user) => user.verify()))
  }
}

function seen(): UsersReport {
  const samples = users.flatMap((user, at) => {
    const news = user.samples.slice(reported[at])
    reported[at] = user.samples.length
    return news
  })
  return {
    samples,
    acknowledged: users.reduce((sum, user) => sum + user.acknowledged, 0),
    lost: users.flatMap((user) => user.lost),
    strange: users.flatMap((user) => user.strange),
  }
}
