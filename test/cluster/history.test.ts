/** The checker of the fault suite finds what it is there for: each kind of broken promise in a history made by hand. */
import t from 'tap'
import { check } from './faults/checker.ts'
import { History, type Look, type MadeItem, type SeenItem } from './faults/history.ts'
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

function look([asked, answered]: [number, number], items: SeenItem[], last = false): Look {
  return { account, asked, answered, last, items }
}

function historyOf(parts: Partial<Pick<History, 'items' | 'boards' | 'looks'>>): History {
  const history = new History()
  history.items.push(...(parts.items ?? []))
  history.boards.push(...(parts.boards ?? []))
  history.looks.push(...(parts.looks ?? []))
  return history
}

t.test('a history in which all is well has no faults', async (t) => {
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

t.test('an acknowledged change that is gone in the end is lost', async (t) => {
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

t.test('a look that began after the acknowledgement and does not see it is stale', async (t) => {
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

t.test('two effects, effects of nobody and other bytes are found', async (t) => {
  const file: MadeItem = { ...folder('f', [0, 1]), file: { md5: 'm', size: 3 } }
  const { other, wrongBytes } = check(
    historyOf({
      items: [folder('x', [0, 1]), file],
      looks: [look([9, 10], [seen('x'), seen('x'), seen('?'), seen('f', { md5: 'n', size: 3 })], true)],
    }),
  )
  t.match(other, [/x is there twice/, /nobody made it/])
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
