/** One request being decided: the caller, the time, and the ways it can end. */
import { accessRefusal } from '@holdfast/access'
import { asBuffer } from '@holdfast/kernel'
import {
  type AccountReply,
  type AccountRequest,
  type AccountView,
  type Blob,
  type Change,
  type Event,
  type Grant,
  type Item,
  type OperationName,
  type Refusal,
  AccountReply as Reply,
} from '@holdfast/wire'
import type { Account } from '../account/account.ts'
import { type AccountRecord, accountView, limitsOf } from '../account/record.ts'
import {
  contentsMax,
  directLinksShare,
  metadataBytesMin,
  metadataBytesPerContent,
  outcomeBytesMax,
} from '../bounds.ts'
import type { DecideContext, Outcome, TreeSettings } from '../contract.ts'
import { NewIds } from '../new-ids.ts'
import { commandNumber } from '../operations.ts'
import type { Listing } from '../reading/listing.ts'
import { PasswordTries, ReaderView } from '../reading/reader-view.ts'
import { newExpiry } from './lifetimes.ts'

export interface Viewer {
  /** The account itself, the operator, or a part of the service. */
  isOwner: boolean
  kind: 'bearer' | 'visitor' | 'grant' | 'operator' | 'system'
  grant: Grant | undefined
}

export type Result = NonNullable<AccountReply['result']>

/** Why there is nothing to work on. */
export function refusal(status: string): Refusal {
  return { status }
}

export function isRefusal(found: number | readonly number[] | Refusal): found is Refusal {
  return typeof found === 'object' && 'status' in found
}

export function refuse(status: string): Outcome {
  return answer({ $case: 'refusal', value: { status } })
}

export function answer(result: Result): Outcome {
  return { kind: 'reply', reply: { result } }
}

export const done: Result = { $case: 'done', value: {} }

/** Runs long work at once when it turns out to be short. */
export function inSlices(steps: Generator<void, Outcome>): Outcome {
  const first = steps.next()
  return first.done === true ? first.value : { kind: 'slices', steps }
}

/** Undefined when the answer is too large to be kept. */
function keptOf(result: Result, ifLarge: Result | undefined): Buffer | undefined {
  const encoded = asBuffer(Reply.encode({ result }).finish())
  if (encoded.length <= outcomeBytesMax) return encoded
  return ifLarge === undefined ? undefined : asBuffer(Reply.encode({ result: ifLarge }).finish())
}

export class RequestContext {
  readonly account: Account
  readonly settings: TreeSettings
  readonly inputs: DecideContext
  readonly request: AccountRequest
  readonly operation: OperationName
  readonly viewer: Viewer
  /** Unix seconds. */
  readonly now: number

  constructor(parts: {
    account: Account
    settings: TreeSettings
    context: DecideContext
    request: AccountRequest
    operation: OperationName
    viewer: Viewer
  }) {
    this.account = parts.account
    this.settings = parts.settings
    this.inputs = parts.context
    this.request = parts.request
    this.operation = parts.operation
    this.viewer = parts.viewer
    this.now = Math.floor(parts.context.nowMs / 1000)
  }

  get tree() {
    return this.account.tree
  }

  get isPremium(): boolean {
    return this.account.known.tier === 'premium'
  }

  get mayUpload(): boolean {
    return this.settings.guestUploads || this.account.known.tier !== 'guest'
  }

  viewFor(password: string | undefined, isOwner = this.viewer.isOwner): ReaderView {
    const tries = new PasswordTries(this.inputs, password)
    return new ReaderView(this.account, { isOwner, now: this.now, tries })
  }

  /** As the owner sees it: in answers to commands. */
  owners(): ReaderView {
    return this.viewFor(undefined, true)
  }

  newIds(): NewIds {
    return new NewIds(this.settings, {
      account: this.account.id,
      seed: this.inputs.seed,
      codeStart: this.inputs.codes.next,
    })
  }

  /**
   * What to request when a decision takes more share codes than there are; undefined: there are
   * enough.
   */
  missingCodes(count: number): Outcome | undefined {
    const { next, end } = this.inputs.codes
    return end - next < count ? { kind: 'needs', codes: count } : undefined
  }

  /**
   * The change, with its answer. A small answer is kept for a retry. Instead of a large answer
   * `keptIfLarge` is kept. A large answer without `keptIfLarge`, or one that needs the new state,
   * is made again from the ids in the events.
   *
   * A command without any effect now is a change, too, if it could have an effect later: without a
   * kept result a repetition would carry it out.
   */
  changed(
    events: NonNullable<Event['event']>[],
    result: Result | (() => Result),
    extra: {
      uses?: Blob[]
      codesUsed?: number
      legacyCodesUsed?: number
      mayWait?: boolean
      keptIfLarge?: Result
    } = {},
  ): Outcome {
    const known = typeof result === 'function' ? undefined : { result }
    const kept = known === undefined ? undefined : keptOf(known.result, extra.keptIfLarge)
    const { codes } = this.inputs
    const change: Change = {
      requestId: Buffer.from(this.request.requestId),
      timeMs: Math.floor(this.inputs.nowMs),
      events: events.map((event) => ({ event })),
      outcome: kept ?? Buffer.alloc(0),
      // Ids of copies alone are made again from it.
      seed: events.some(({ $case }) => $case === 'contentsCopied')
        ? Buffer.from(this.inputs.seed)
        : Buffer.alloc(0),
      codeStart: codes.next,
      operation: commandNumber(this.operation),
      codesUsed: extra.codesUsed ? { count: extra.codesUsed, term: codes.term ?? 0 } : undefined,
    }
    return {
      kind: 'change',
      change,
      uses: extra.uses ?? [],
      codesUsed: extra.codesUsed ?? 0,
      legacyCodesUsed: extra.legacyCodesUsed ?? 0,
      mayWait: extra.mayWait ?? false,
      reply: () => known ?? { result: (result as () => Result)() },
    }
  }

  /**
   * `error-limits` when that much more would not fit; the contract's caps count recycled content
   * too.
   *
   * @param more.metadata bytes in a checkpoint.
   */
  fits(more: { contents: number; bytes: number; metadata: number }): boolean {
    const { files, folders, bytes } = this.tree.totals()
    const limits = limitsOf(this.account.known, this.settings)
    const contents = files + folders + more.contents
    if (contents > Math.min(limits.contents ?? contentsMax, contentsMax)) return false
    if (limits.storage !== undefined && bytes + more.bytes > limits.storage) return false
    return more.metadata <= this.metadataLeft
  }

  /** A change that does not grow is accepted in a full account. */
  growthFits(metadata: number): boolean {
    return metadata <= 0 || metadata <= this.metadataLeft
  }

  /** Bytes of metadata that the account may still take. */
  get metadataLeft(): number {
    return this.#metadataBytesMax - this.tree.savedBytes
  }

  /** Bytes that its direct links may still take. */
  get directLinkBytesLeft(): number {
    return this.#metadataBytesMax * directLinksShare - this.tree.sparse.directLinkBytes
  }

  get #metadataBytesMax(): number {
    const { contents = contentsMax } = limitsOf(this.account.known, this.settings)
    return Math.min(
      this.settings.metadataBytesMax,
      Math.max(metadataBytesMin, contents * metadataBytesPerContent),
    )
  }

  accountView(record: AccountRecord = this.account.known): AccountView {
    const { tree } = this
    return accountView(record, this.settings, {
      rootId: tree.idOf(tree.root),
      binId: tree.idOf(tree.bin),
      totals: tree.totals(),
      directLinkCount: tree.sparse.directLinkCount,
    })
  }

  contentView(item: Item, listed?: Omit<Listing, 'item'>, record = this.account.record): Result {
    const own = item.isOwner && record !== undefined
    return {
      $case: 'content',
      value: {
        item,
        page: listed?.page,
        files: listed?.files,
        places: listed?.places ?? [],
        tokenCounter: own ? record.tokenCounter : 0,
        tokenKeyId: own ? record.tokenKeyId : 0,
      },
    }
  }

  /**
   * Content that a command names: it exists for this caller, belongs to it, and is not in the bin.
   *
   * @param foreign the status for other accounts' content.
   */
  own(id: string, foreign = 'error-notOwner'): number | Refusal {
    const row = this.visible(id)
    if (isRefusal(row)) return row
    return this.viewer.isOwner ? row : refusal(foreign)
  }

  /**
   * Only the existence, as this caller may see it: recycled content exists for no caller, expired
   * content only for its owner.
   */
  visible(id: string): number | Refusal {
    const { tree } = this
    const row = tree.find(id)
    if (row < 0) return refusal('error-notFound')
    if (row === tree.bin && this.viewer.isOwner) return refusal('error-protectedFolder')
    if (tree.inBin(row)) return refusal('error-notFound')
    if (!this.viewer.isOwner && this.isExpired(row)) return refusal('error-notFound')
    return row
  }

  isExpired(row: number): boolean {
    const ends = this.tree.endsOf(this.tree.isFolder(row) ? row : this.tree.parentOf(row))
    return ends !== undefined && this.now >= ends
  }

  /** A folder that accepts new content now. @param parameter names it in the refusal of a file. */
  destination(id: string, parameter: string): number | Refusal {
    const row = this.own(id)
    if (isRefusal(row)) return row
    if (!this.tree.isFolder(row)) return refusal(`error-${parameter}`)
    // An expired folder that is deleted with everything in it accepts nothing new. An expired
    // folder of a Premium owner stays, and accepts new content.
    if (!this.isPremium && this.isExpired(row)) return refusal('error-notFound')
    return row
  }

  /**
   * What a new folder inherits from its parent, and the lifetime that its account's folders have.
   * Past expiries are not inherited.
   */
  inherited(parent: number) {
    const expiry = this.tree.expiryOf(parent)
    return {
      isPublic: this.tree.isPublic(parent),
      password: this.tree.passwordOf(parent),
      expiry: newExpiry(this, expiry !== undefined && expiry > this.now ? expiry : undefined),
    }
  }

  /** The answer of a read, or what must be checked first. */
  read(view: ReaderView, result: () => Result): Outcome {
    const { open } = view.tries
    return open.length > 0 ? { kind: 'needs', verdicts: open } : answer(result())
  }

  /** Undefined when the content opens to the reader. */
  closed(view: ReaderView, row: number): Outcome | undefined {
    const access = view.accessToContent(row)
    if (access === 'open') return undefined
    if (access === 'unknown') return { kind: 'needs', verdicts: view.tries.open }
    return refuse(accessRefusal(access))
  }
}
