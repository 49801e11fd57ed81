/**
 * A short form of `npm run test:long`: some rounds of kill -9 under load. The seed changes with
 * every run and is printed.
 */
import t from 'tap'
import { sizeOf } from './forms.ts'
import { crashRounds } from './long/crash.ts'

t.test('acknowledged changes survive kill -9, others are whole or absent', async (t) => {
  const seed = Date.now() % 1_000_000_000
  const rounds = sizeOf('crashRounds')
  t.comment(`seed ${seed}; again with: npm run test:long -- --only crash --rounds ${rounds} --seed ${seed}`)
  const figures = await crashRounds({ rounds, seed, report: (line) => t.comment(line) })
  t.equal(figures.rounds, rounds)
  t.equal(figures.orphanBytes, 0)
  t.ok(figures.acknowledged > 0, `${figures.acknowledged} acknowledged changes`)
})
