/** Which bytes a report takes down: all below a folder, page by page, up to a bound. */
import { blank, Item } from '@holdfast/wire'
import t from 'tap'
import { childrenPerRead, contentsWithinMax, hashesWithin } from '../src/moderation/hashes-within.ts'

function file(id: string, hash: number): Item {
  const blob = {
    id: Buffer.alloc(48, hash),
    incarnation: Buffer.alloc(16),
    size: 1,
    crc32: 0,
    placementGroup: 0,
  }
  return { ...blank(Item), id, blob }
}

function folder(id: string, children: Item[] = []): Item {
  return { ...blank(Item), id, isFolder: true, children }
}

/** As an account answers: one page of the children, without what is below them. */
function reading(...items: Item[]) {
  return async (id: string, page: number): Promise<Item> => {
    const item = items.find((one) => one.id === id)
    if (item === undefined) throw new Error(`there is no ${id}`)
    return { ...item, children: item.children.slice((page - 1) * childrenPerRead, page * childrenPerRead) }
  }
}

const hashOf = (byte: number) => byte.toString(16).padStart(2, '0').repeat(32)

t.test('a file has its own hash alone', async (t) => {
  t.same(await hashesWithin('a', reading(file('a', 1))), [hashOf(1)])
})

t.test('files of a folder count at any depth and on every page, equal ones once', async (t) => {
  const many = Array.from({ length: childrenPerRead }, (_, at) => file(`f${at}`, 2))
  const top = folder('top', [...many, file('last', 3), folder('sub')])
  const sub = folder('sub', [folder('deep'), file('b', 4)])
  const read = reading(top, sub, folder('deep', [file('c', 5), file('d', 2)]))
  t.same((await hashesWithin('top', read)).sort(), [2, 3, 4, 5].map(hashOf))
  t.same(await hashesWithin('empty', reading(folder('empty'))), [])
})

t.test('a folder of more contents than the bound is refused', async (t) => {
  const few = Array.from({ length: contentsWithinMax }, (_, at) => file(`f${at}`, 6))
  t.same(await hashesWithin('few', reading(folder('few', few))), [hashOf(6)])
  const more = folder('more', [...few, file('last', 7)])
  const refused = await hashesWithin('more', reading(more)).catch((error: unknown) => error)
  t.match(refused, { status: 'error-tooMany' })
})
