/** Three nodes are one blob store, whichever of them fails, in any way. */
import type { StorageNode } from '@holdfast/blob-store'
import { blobStoreContract } from '@holdfast/blob-store/testing'
import t, { type Test } from 'tap'
import { breaksAfter, group, losesCommitAnswers, Region } from './region.ts'

const three = [{ id: 'a' }, { id: 'b' }, { id: 'c' }]

const worlds: [string, (region: Region) => void][] = [
  ['three nodes', () => {}],
  ['three nodes, one does not answer and is taken for alive', (region) => region.cut('b')],
  [
    'three nodes, the nearest is known to be gone',
    (region) => {
      region.cut('a')
      region.silent.add('a')
    },
  ],
  ['three nodes, one breaks in the middle of each upload', (region) => region.plant('b', breaksAfter(1000))],
  ['three nodes, one loses its answers to commits', (region) => region.plant('a', losesCommitAnswers)],
  [
    'three nodes, one fails to commit',
    (region) =>
      region.plant('b', (node: StorageNode) => ({
        put: () => Promise.reject(new Error('a mistake in a node')),
        stage: async (options) => {
          const stage = await node.stage(options)
          stage.commit = () => Promise.reject(new Error('a mistake in a node'))
          return stage
        },
      })),
  ],
]

for (const [name, arrange] of worlds)
  t.test(name, async (t) => {
    const regions = new Map<Test, Region>()
    blobStoreContract<Test>({
      test: (name, body) => t.test(name, body),
      passed: (t, name) => void t.pass(name),
      open: async (t) => {
        const region = await Region.open(three, [group(['a', 'b', 'c'])])
        t.teardown(() => region.close())
        arrange(region)
        regions.set(t, region)
        return region.frontend()
      },
      rot: async (t, store, info) => {
        const nodes = regions.get(t)?.stores.values() ?? []
        for (const node of nodes) if ((await node.stat(info)) !== undefined) node.rot(info)
        return store
      },
    })
  })
