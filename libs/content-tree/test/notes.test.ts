/** What holds for each note, also for one that is added later. */
import t from 'tap'
import { listedBytes } from '../src/reading/listed-bytes.ts'
import type { ReaderView } from '../src/reading/reader-view.ts'
import { none } from '../src/tree/columns.ts'
import { type NoteName, noteNames } from '../src/tree/notes.ts'
import { savedNotesBytes } from '../src/tree/saved-bytes.ts'
import { Tree } from '../src/tree/tree.ts'
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

t.test('the bytes of a note count in memory, in a checkpoint, in a copy and in an answer', async (t) => {
  const tree = new Tree()
  const id = '00000000-0000-4000-8000-000000000000'
  const times = { createTime: 1, modTime: 1 }
  const access = { isPublic: false, password: undefined, expiry: undefined }
  const row = tree.addFolder(none, { id, name: 'root', code: '', ...times, ...access })
  const reading = { tree, isOpen: () => true, isOwner: true } as unknown as ReaderView
  const figures = () => ({
    memory: tree.bytes,
    checkpoint: tree.savedBytes,
    copy: tree.savedBytesOf(row),
    foreignCopy: savedNotesBytes(tree.sparse.notesOf(row)),
    answer: listedBytes(reading, row),
  })
  for (const name of noteNames) {
    const before = figures()
    tree.sparse.setNote(name, row, 'x')
    const short = figures()
    tree.sparse.setNote(name, row, 'x'.repeat(51))
    const long = figures()
    for (const figure of ['checkpoint', 'copy', 'foreignCopy', 'answer'] as const) {
      t.ok(short[figure] > before[figure], `${name}, ${figure}`)
      t.equal(long[figure] - short[figure], 50, `${name}, ${figure}`)
    }
    // An entry of a map takes more than the text.
    t.ok(short.memory >= before.memory + 100, `${name}, memory`)
    t.equal(long.memory - short.memory, 50, `${name}, memory`)
  }
})
