/**
 * The checker of the fault suite finds what it must: each kind of broken promise in a history made
 * by hand.
 */
import t from 'tap'
import { SeededNumbers } from '../long/seeded.ts'
import { check } from './faults/checker.ts'
import { type Board, type FolderRead, History, type MadeItem, type SeenItem } from './faults/history.ts'
import { contradictionsOf } from './faults/register.ts'

const account = 'a'
const never = Infinity

function folder(name: string, [asked, answered]: [number, number], removed?: [number, number]): MadeItem {
  return {
    name,
    account,
    made: { asked, answered },
    file: undefined,
    id: answered === never ? undefined : `id of ${name}`,
    removed: removed && { asked: removed[0], answered: removed[1] },
  }
}

function seen(name: string, more: Partial<SeenItem> = {}): SeenItem {
  return { id: `id of ${name}`, name, description: '', md5: undefined, size: undefined, ...more }
}

function look([asked, answered]: [number, number], items: SeenItem[], last = false): FolderRead {
  return { account, asked, answered, last, items }
}

function historyOf(parts: Partial<Pick<History, 'items' | 'boards' | 'looks'>>): History {
  const history = new History()
  history.items.push(...(parts.items ?? []))
  history.boards.push(...(parts.boards ?? []))
  history.looks.push(...(parts.looks ?? []))
  return history
}

t.test('a correct history has no faults', async (t) => {
  const verdict = check(
    historyOf({
      items: [
        folder('x', [0, 1]),
        folder('y', [2, never]),
        folder('z', [3, never]),
        folder('w', [4, 5], [6, 7]),
      ],
      boards: [
        {
          name: 'b',
          account,
          id: 'id of b',
          writes: [
            { value: '1', asked: 1, answered: 2 },
            { value: '2', asked: 1, answered: 3 },
          ],
        },
      ],
      looks: [
        look([1.5, 2.5], [seen('x'), seen('b', { description: '1' })]),
        look([5.5, 5.6], [seen('x'), seen('y'), seen('w'), seen('b', { description: '2' })]),
        look([6.5, 6.6], [seen('x'), seen('y'), seen('b', { description: '2' })]),
        look([9, 10], [seen('x'), seen('y'), seen('b', { description: '2' })], true),
      ],
    }),
  )
  t.strictSame([verdict.lost, verdict.stale, verdict.wrongBytes, verdict.other], [[], [], [], []])
  t.strictSame(verdict.unknown, { happened: 1, absent: 1 })
  t.equal(verdict.acknowledged, 5)
})

t.test('an acknowledged change that is missing in the end is lost', async (t) => {
  const { lost } = check(
    historyOf({ items: [folder('x', [0, 1])], looks: [look([2, 3], [seen('x')]), look([9, 10], [], true)] }),
  )
  t.match(lost, [/^x: its making was acknowledged/])
})

t.test('an acknowledged removal that is undone in the end is lost', async (t) => {
  const { lost } = check(
    historyOf({ items: [folder('x', [0, 1], [2, 3])], looks: [look([9, 10], [seen('x')], true)] }),
  )
  t.match(lost, [/^x: its removal was acknowledged/])
})

t.test('an acknowledged description that an older one replaces in the end is lost', async (t) => {
  const writes = [
    { value: '1', asked: 0, answered: 1 },
    { value: '2', asked: 2, answered: 3 },
  ]
  const { lost } = check(
    historyOf({
      boards: [{ name: 'b', account, id: 'id of b', writes }],
      looks: [look([9, 10], [seen('b', { description: '1' })], true)],
    }),
  )
  t.match(lost, [/1 and 2 in no possible order/])
})

t.test('a look that began after the acknowledgement and does not see the change is stale', async (t) => {
  const items = [folder('x', [0, 1])]
  const { stale, lost } = check(
    historyOf({ items, looks: [look([2, 3], []), look([9, 10], [seen('x')], true)] }),
  )
  t.match(stale, [/^x: seen/])
  t.strictSame(lost, [])
})

t.test('a change without an answer that was seen must stay', async (t) => {
  const { stale } = check(
    historyOf({
      items: [folder('x', [0, never])],
      looks: [look([2, 3], [seen('x')]), look([4, 5], []), look([9, 10], [], true)],
    }),
  )
  t.match(stale, [/^x: seen/])
})

t.test('two effects, effects without a request and other bytes are found', async (t) => {
  const file: MadeItem = { ...folder('f', [0, 1]), file: { md5: 'm', size: 3 } }
  const { other, wrongBytes } = check(
    historyOf({
      items: [folder('x', [0, 1]), file],
      looks: [look([9, 10], [seen('x'), seen('x'), seen('?'), seen('f', { md5: 'n', size: 3 })], true)],
    }),
  )
  t.match(other, [/x is there twice/, /no client made it/])
  t.match(wrongBytes, [/^f is listed/])
})

t.test('values of a register contradict when each would have to be the older one', async (t) => {
  const first = { value: '0', asked: -Infinity, answered: -Infinity }
  const one = { value: '1', asked: 0, answered: 1 }
  const two = { value: '2', asked: 2, answered: 3 }
  t.strictSame(contradictionsOf([first, one, two], [{ value: '1', asked: 2.5, answered: 2.6 }]), [])
  t.match(contradictionsOf([first, one, two], [{ value: '1', asked: 4, answered: 5 }]), [
    { value: '1', other: '2' },
  ])
  const late = { value: '3', asked: 0, answered: never }
  const reads = [
    { value: '3', asked: 1, answered: 2 },
    { value: '0', asked: 3, answered: 4 },
  ]
  t.match(contradictionsOf([first, late], reads), [{ value: '0', other: '3' }])
  t.strictSame(contradictionsOf([first, late], [{ value: '0', asked: 3, answered: 4 }]), [])
  t.match(contradictionsOf([first, two], [{ value: '2', asked: 0, answered: 1 }]), [{ kind: 'never' }])
})

type Plant = 'nothing' | 'a dropped change' | 'an old look'

/**
 * A correct store: every operation happens at a time between its request and its answer, or never
 * when it has none. Then the planted fault.
 */
function storedHistory(seed: number, plant: Plant): History {
  const random = new SeededNumbers(seed)
  const history = new History()
  const board = { name: 'board', account, id: 'id of board', writes: [] as Board['writes'] }
  history.boards.push(board)
  const happenings: { at: number; happen: (state: Map<string, SeenItem>) => void }[] = []
  const states: { at: number; items: SeenItem[] }[] = []
  const dropped = 5 + random.below(30)
  const change = (number: number, happen: (state: Map<string, SeenItem>) => void) => {
    const asked = number * 10 + random.below(10)
    const at = asked + 1 + random.below(30)
    const answered = random.chance(0.15) ? never : at + 1 + random.below(30)
    const isDropped =
      answered === never ? random.chance(0.5) : plant === 'a dropped change' && number === dropped
    if (!isDropped) happenings.push({ at, happen })
    return { asked, answered }
  }
  for (let number = 0; number < 40; number++) {
    if (number === dropped || random.chance(0.5)) {
      // The dropped one must be noticeable: it makes something that no later change touches.
      const name = `item ${number}`
      const made = change(number, (state) => state.set(name, seen(name)))
      const id = made.answered === never ? undefined : `id of ${name}`
      history.items.push({ name, account, made, file: undefined, id, removed: undefined })
    } else {
      const value = `text ${number}`
      const { asked, answered } = change(number, (state) =>
        state.set('board', seen('board', { description: value })),
      )
      board.writes.push({ value, asked, answered })
    }
  }
  const state = new Map([['board', seen('board')]])
  states.push({ at: -1, items: [...state.values()] })
  for (const { at, happen } of happenings.sort((one, other) => one.at - other.at)) {
    happen(state)
    states.push({ at, items: [...state.values()] })
  }
  const stateAt = (moment: number) => states.findLast(({ at }) => at <= moment)?.items ?? []
  for (let number = 0; number < 40; number++) {
    const asked = number * 10 + random.below(10)
    const at = asked + random.below(5)
    history.looks.push(look([asked, at + random.below(5)], stateAt(at)))
  }
  if (plant === 'an old look') history.looks.push(look([600, 601], stateAt(150)))
  history.looks.push(look([900, 901], stateAt(890), true))
  return history
}

t.test('histories of a correct store have no faults, in any order', async (t) => {
  for (let seed = 1; seed <= 200; seed++) {
    const { lost, stale, wrongBytes, other } = check(storedHistory(seed, 'nothing'))
    t.strictSame(
      { lost, stale, wrongBytes, other },
      { lost: [], stale: [], wrongBytes: [], other: [] },
      `seed ${seed}`,
    )
  }
})

t.test('an acknowledged change that the store drops is found', async (t) => {
  let found = 0
  let planted = 0
  for (let seed = 1; seed <= 200; seed++) {
    const history = storedHistory(seed, 'a dropped change')
    // The dropped one may have been without an answer.
    const kept = new Set(history.looks.at(-1)?.items.map(({ name }) => name))
    if (history.items.every(({ name, made }) => kept.has(name) || made.answered === never)) continue
    planted++
    if (check(history).lost.length > 0) found++
  }
  t.ok(planted > 100, `${planted} planted`)
  t.equal(found, planted)
})

t.test('a look at an old state is found', async (t) => {
  for (let seed = 1; seed <= 200; seed++)
    t.ok(check(storedHistory(seed, 'an old look')).stale.length > 0, `seed ${seed}`)
})
