/** The table of operations has the numbers of the protocol. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { operations } from '../src/index.ts'

const protocol = readFileSync(
  new URL('../../../proto/holdfast/account/v1/request.proto', import.meta.url),
  'utf8',
)

t.test('every operation of a request has its number', async (t) => {
  const [, block = ''] = /oneof operation \{([\s\S]*?)\n {2}\}/.exec(protocol) ?? []
  const fields = [...block.matchAll(/^ {4}\w+ (\w+) = (\d+);/gm)].map(([, name = '', number]) => [
    name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    Number(number),
  ])
  t.ok(fields.length > 20)
  t.strictSame(
    Object.entries(operations).map(([name, { number }]) => [name, number]),
    fields,
  )
})

t.test('only commands have keys, and only reads are answered from what is stored', async (t) => {
  for (const [name, { effect, isKeyed, isStored }] of Object.entries(operations)) {
    if (isKeyed) t.not(effect, 'reads', name)
    if (isStored) t.equal(effect, 'reads', name)
  }
})
