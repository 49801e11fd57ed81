import t from 'tap'
import { type NoteName, noteNames } from '../src/tree/notes.ts'
import { operator, World } from './world.ts'

/** A good value of each. */
const values: Record<NoteName, string> = { description: 'before', tags: 'before' }

t.test('a content in the place of a deleted one has none of its notes', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  for (const name of noteNames) {
    const { id } = world.folder(root, { name: 'before' })
    const attribute = { $case: name, value: values[name] } as const
    world.ask(operator, { updateContent: { contentId: id, attribute } })
    t.equal(world.read(operator, id)[name], values[name])
    world.ask(operator, { deleteContents: { contentIds: [id] } })
    t.equal(world.folder(root, { name: 'after' })[name], undefined)
    for (const child of world.read(operator, root).children) t.equal(child[name], undefined, name)
  }
})
