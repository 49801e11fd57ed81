/** The memory store as a node's store, and broken variants. */

import { randomBytes } from 'node:crypto'
import { hex } from '@holdfast/kernel'
import t, { type Test } from 'tap'
import {
  type BlobInfo,
  type BlobName,
  MemoryBlobStore,
  type NodeStore,
  type PullAnswer,
} from '../src/index.ts'
import { nodeStoreChecks, nodeStoreContract } from '../src/testing.ts'

nodeStoreContract<Test>({
  test: (name, body) => t.test(name, body),
  passed: (t, name) => void t.pass(name),
  open: async () => new MemoryBlobStore(),
  rot: async (_, store, blob) => {
    ;(store as MemoryBlobStore).rot(blob)
    return store
  },
})

const broken: [string, () => NodeStore][] = [
  [
    'forgets deletions',
    () =>
      new (class extends MemoryBlobStore {
        override async deletedMs(): Promise<undefined> {}
      })(),
  ],
  [
    'takes a deletion for one of all its content',
    () =>
      new (class extends MemoryBlobStore {
        readonly #gone = new Set<string>()
        override delete(blob: BlobName) {
          this.#gone.add(hex(blob.id))
          return super.delete(blob)
        }
        override async deletedMs(blob: BlobName) {
          return this.#gone.has(hex(blob.id)) ? 1 : undefined
        }
      })(),
  ],
  [
    'knows every position',
    () =>
      new (class extends MemoryBlobStore {
        override async pull(request: Parameters<MemoryBlobStore['pull']>[0]): Promise<PullAnswer> {
          const pulled = await super.pull(request)
          if (pulled.kind === 'entries') return pulled
          return { kind: 'entries', entries: [], through: pulled.now, behind: 0, nowMs: pulled.nowMs }
        }
      })(),
  ],
  [
    'hands out one entry too few',
    () =>
      new (class extends MemoryBlobStore {
        override async pull(request: Parameters<MemoryBlobStore['pull']>[0]): Promise<PullAnswer> {
          const pulled = await super.pull(request)
          return pulled.kind === 'entries' ? { ...pulled, entries: pulled.entries.slice(1) } : pulled
        }
      })(),
  ],
  [
    'loses groups',
    () =>
      new (class extends MemoryBlobStore {
        override async stat(blob: BlobName): Promise<BlobInfo | undefined> {
          const info = await super.stat(blob)
          return info && { ...info, placementGroup: 0 }
        }
      })(),
  ],
  [
    'forgets what uploads became',
    () =>
      new (class extends MemoryBlobStore {
        override async committed(): Promise<undefined> {}
      })(),
  ],
  [
    'pins a rotten copy as whole',
    () =>
      new (class extends MemoryBlobStore {
        override pin(blob: BlobName, { ttlMs }: { ttlMs: number }) {
          return super.pin(blob, { ttlMs })
        }
      })(),
  ],
  [
    'chooses upload ids itself',
    () =>
      new (class extends MemoryBlobStore {
        override stage(options: Parameters<MemoryBlobStore['stage']>[0] = {}) {
          return super.stage({ ...options, uploadId: randomBytes(16) })
        }
      })(),
  ],
]

t.test('the suite finds faults: each deliberately broken store fails at least one check', async (t) => {
  for (const [name, make] of broken) {
    let failed: string | undefined
    for (const check of nodeStoreChecks.filter(({ reopens }) => !reopens)) {
      try {
        const store = make()
        await check.run(store, undefined, async (blob) => {
          ;(store as MemoryBlobStore).rot(blob)
          return store
        })
      } catch {
        failed = check.name
        break
      }
    }
    t.ok(failed, `a store that ${name}: ${failed}`)
  }
})
