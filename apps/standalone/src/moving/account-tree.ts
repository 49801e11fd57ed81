/** The tree of an account, as the operator reads and extends it. */
import { askAsOperator, type OperatorDeps } from '@holdfast/admin'
import type { BlobInfo } from '@holdfast/blob-store'
import { type AccountId, isTime } from '@holdfast/kernel'
import { fileType } from '@holdfast/upload'
import { blank, type Item, ReadContent, SortField } from '@holdfast/wire'

const pageSize = 1_000

export class AccountTree {
  readonly account: AccountId
  readonly #deps: OperatorDeps

  constructor(deps: OperatorDeps, account: AccountId) {
    this.#deps = deps
    this.account = account
  }

  async root(): Promise<string> {
    const answer = await askAsOperator(this.#deps, this.account, { $case: 'getAccount', value: {} })
    if (answer.$case !== 'account') throw new Error(`${this.account} answered ${answer.$case} to getAccount`)
    return answer.value.rootFolder
  }

  /** What lies in a folder, the oldest first. @throws RefusalError */
  async *children(folder: string): AsyncGenerator<Item> {
    for (let page = 1; ; page++) {
      const { children } = await this.#page(folder, { page, pageSize })
      yield* children
      if (children.length < pageSize) return
    }
  }

  async #page(folder: string, { page, pageSize }: { page: number; pageSize: number }): Promise<Item> {
    const value = {
      ...blank(ReadContent),
      ...{ contentId: folder, page, pageSize, maxDepth: 1 },
      ...{ sortField: SortField.CREATE_TIME, ascending: true },
    }
    const answer = await askAsOperator(this.#deps, this.account, { $case: 'readContent', value })
    const item = answer.$case === 'content' ? answer.value.item : undefined
    if (item === undefined || !item.isFolder) throw new Error(`${folder} of ${this.account} is no folder`)
    return item
  }

  /** Folders above this one. @throws RefusalError */
  async depthOf(folder: string): Promise<number> {
    const { parentFolder } = await this.#page(folder, { page: 1, pageSize: 1 })
    return parentFolder === undefined ? 0 : 1 + (await this.depthOf(parentFolder))
  }

  /** @param modTime Unix seconds. @returns its id */
  async makeFolder(parent: string, { name, modTime }: { name: string; modTime: number }): Promise<string> {
    const value = { parentFolderId: parent, name, isPublic: undefined, modTime: timeOf(modTime) }
    return this.#added(await askAsOperator(this.#deps, this.account, { $case: 'createFolder', value }))
  }

  /** @param modTime Unix seconds. @returns its id */
  async addFile(
    folder: string,
    { name, modTime, blob }: { name: string; modTime: number; blob: BlobInfo },
  ): Promise<string> {
    const value = {
      createAccount: undefined,
      folderId: folder,
      name,
      mimetype: fileType(undefined, name),
      blob: {
        id: Buffer.from(blob.id),
        incarnation: Buffer.from(blob.incarnation),
        size: blob.size,
        crc32: blob.crc32,
        placementGroup: blob.placementGroup ?? 0,
      },
      modTime: timeOf(modTime),
    }
    return this.#added(await askAsOperator(this.#deps, this.account, { $case: 'addFile', value }))
  }

  /** Additions to a folder change its time: it is set after them. @param modTime Unix seconds. */
  async setTime(folder: string, modTime: number): Promise<void> {
    if (!isTime(modTime)) return
    const value = { contentId: folder, attribute: { $case: 'modTime' as const, value: modTime } }
    await askAsOperator(this.#deps, this.account, { $case: 'updateContent', value })
  }

  #added(answer: Awaited<ReturnType<typeof askAsOperator>>): string {
    const id = answer.$case === 'content' ? answer.value.item?.id : undefined
    if (id === undefined) throw new Error(`account ${this.account} answered ${answer.$case} to an addition`)
    return id
  }
}

/** A time that no content may have is left to the account: now. */
function timeOf(seconds: number): number | undefined {
  return isTime(seconds) ? seconds : undefined
}
