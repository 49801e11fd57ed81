import { hex } from '@holdfast/kernel'
import t, { type Test } from 'tap'
import {
  type BlobInfo,
  type BlobName,
  type BlobStage,
  type BlobStore,
  digestOf,
  MemoryBlobStore,
} from '../src/index.ts'
import { type BlobStoreContract, blobStoreChecks, blobStoreContract } from '../src/testing.ts'

const runner: Pick<BlobStoreContract<Test>, 'test' | 'passed'> = {
  test: (name, body) => t.test(name, body),
  passed: (t, name) => void t.pass(name),
}

const rot = async (_: unknown, store: BlobStore, blob: BlobInfo) => {
  ;(store as MemoryBlobStore).rot(blob)
  return store
}

blobStoreContract({ ...runner, open: async () => new MemoryBlobStore(), rot })

/** A store with one fault; everything else goes to a correct one. */
class FaultyBlobStore implements BlobStore {
  readonly right = new MemoryBlobStore()
  stage(options?: { expectedBytes?: number; signal?: AbortSignal }): Promise<BlobStage> {
    return this.right.stage(options)
  }
  stat(blob: BlobName) {
    return this.right.stat(blob)
  }
  read(blob: BlobName, range: { start: number; end: number }, options?: { signal?: AbortSignal }) {
    return this.right.read(blob, range, options)
  }
  pin(blob: BlobName, options: { ttlMs: number }) {
    return this.right.pin(blob, options)
  }
  delete(blob: BlobName) {
    return this.right.delete(blob)
  }
  inventory() {
    return this.right.inventory()
  }
  usage() {
    return this.right.usage()
  }
  close() {
    return this.right.close()
  }
}

/** Keeps references instead of copies. */
class AliasingStage implements BlobStage {
  readonly #stage: BlobStage
  readonly #parts: Uint8Array[] = []
  constructor(stage: BlobStage) {
    this.#stage = stage
  }
  get uploadId() {
    return this.#stage.uploadId
  }
  write(bytes: Uint8Array) {
    this.#parts.push(bytes)
    return undefined
  }
  async commit(options: { pinMs: number }): Promise<BlobInfo> {
    for (const part of this.#parts.splice(0)) await this.#stage.write(part)
    return this.#stage.commit(options)
  }
  abort() {
    return this.#stage.abort()
  }
}

const broken: Record<string, () => BlobStore> = {
  'keeps references to the written buffers': () =>
    new (class extends FaultyBlobStore {
      override async stage(options?: { expectedBytes?: number; signal?: AbortSignal }) {
        return new AliasingStage(await super.stage(options))
      }
    })(),
  'ends a short body cleanly': () =>
    new (class extends FaultyBlobStore {
      override async *read(blob: BlobName, range: { start: number; end: number }) {
        let left = 1024 * 1024
        for await (const chunk of super.read(blob, range)) {
          if (left <= 0) return
          left -= chunk.length
          yield chunk
        }
      }
    })(),
  'serves the range end inclusively': () =>
    new (class extends FaultyBlobStore {
      override async *read(blob: BlobName, { start, end }: { start: number; end: number }) {
        const size = (await this.stat(blob))?.size ?? 0
        yield* super.read(blob, { start, end: Math.min(size, end + 1) })
      }
    })(),
  'flips a bit on the way out': () =>
    new (class extends FaultyBlobStore {
      override async *read(blob: BlobName, range: { start: number; end: number }) {
        for await (const chunk of super.read(blob, range)) {
          chunk[0] = (chunk[0] ?? 0) ^ 1
          yield chunk
        }
      }
    })(),
  'addresses by md5 alone': () =>
    new (class extends FaultyBlobStore {
      readonly #byMd5 = new Map<string, BlobInfo>()
      override async stage(options?: { expectedBytes?: number; signal?: AbortSignal }): Promise<BlobStage> {
        const stage = await super.stage(options)
        const known = this.#byMd5
        return {
          uploadId: stage.uploadId,
          write: (bytes) => stage.write(bytes),
          abort: () => stage.abort(),
          async commit(options) {
            const info = await stage.commit(options)
            const md5 = hex(info.id.subarray(0, 16))
            const first = known.get(md5) ?? info
            known.set(md5, first)
            return first
          },
        }
      }
    })(),
  'deletes what is pinned': () =>
    new (class extends FaultyBlobStore {
      override async pin(blob: BlobName) {
        return (await this.stat(blob)) !== undefined
      }
    })(),
  'ignores the incarnation': () =>
    new (class extends FaultyBlobStore {
      override async stat(blob: BlobName) {
        for await (const info of this.inventory()) if (Buffer.compare(info.id, blob.id) === 0) return info
        return undefined
      }
    })(),
  'stores identical content twice': () =>
    new (class extends FaultyBlobStore {
      #extra = 0
      override async stage(options?: { expectedBytes?: number; signal?: AbortSignal }): Promise<BlobStage> {
        const stage = await super.stage(options)
        return {
          uploadId: stage.uploadId,
          write: (bytes) => stage.write(bytes),
          abort: () => stage.abort(),
          commit: async (options) => {
            const info = await stage.commit(options)
            if (Buffer.compare(info.incarnation, stage.uploadId) !== 0) this.#extra++
            return info
          },
        }
      }
      override async usage() {
        const usage = await super.usage()
        return { ...usage, blobs: usage.blobs + this.#extra }
      }
    })(),
  'leaves aborted stages behind': () =>
    new (class extends FaultyBlobStore {
      override async stage(options?: { expectedBytes?: number; signal?: AbortSignal }): Promise<BlobStage> {
        const stage = await super.stage(options)
        return {
          uploadId: stage.uploadId,
          write: (bytes) => stage.write(bytes),
          abort: async () => {},
          commit: (options) => stage.commit(options),
        }
      }
    })(),
  'drops the stage for a copy that it does not pin': () =>
    new (class extends FaultyBlobStore {
      override async stage(options?: { expectedBytes?: number; signal?: AbortSignal }): Promise<BlobStage> {
        const stage = await super.stage(options)
        return {
          uploadId: stage.uploadId,
          write: (bytes) => stage.write(bytes),
          abort: () => stage.abort(),
          commit: () => stage.commit({ pinMs: 0 }),
        }
      }
    })(),
  'drops the stage for a rotten copy': () =>
    new (class extends FaultyBlobStore {
      override async stage(options?: { expectedBytes?: number; signal?: AbortSignal }): Promise<BlobStage> {
        const stage = await super.stage(options)
        const parts: Buffer[] = []
        const known = async () => {
          const { id } = digestOf(Buffer.concat(parts))
          for await (const info of this.inventory()) if (Buffer.compare(info.id, id) === 0) return info
          return undefined
        }
        return {
          uploadId: stage.uploadId,
          write: (part) => {
            parts.push(Buffer.from(part))
            return stage.write(part)
          },
          abort: () => stage.abort(),
          commit: async (options) => {
            const info = await known()
            if (info === undefined || !(await this.pin(info, { ttlMs: options.pinMs })))
              return stage.commit(options)
            await stage.abort()
            return info
          },
        }
      }
    })(),
  'answers an absent blob with no bytes': () =>
    new (class extends FaultyBlobStore {
      override async *read(blob: BlobName, range: { start: number; end: number }) {
        if ((await super.stat(blob)) !== undefined) yield* super.read(blob, range)
      }
    })(),
}

t.test('the suite finds faults: each deliberately broken store fails at least one check', async (t) => {
  for (const [fault, make] of Object.entries(broken)) {
    const failed: string[] = []
    for (const check of blobStoreChecks.filter(({ reopens }) => !reopens)) {
      const store = make()
      const rotting = async (blob: BlobInfo) => {
        ;(store as FaultyBlobStore).right.rot(blob)
        return store
      }
      await check
        .run(store, { rot: rotting })
        .catch((error: Error) => void failed.push(`${check.name}: ${error.message}`))
    }
    t.ok(failed.length > 0, `a store that ${fault}`)
    t.comment(failed[0]?.split('\n')[0] ?? 'not noticed')
  }
})
