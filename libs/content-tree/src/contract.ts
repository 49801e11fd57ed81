/**
 * The pure core's interface: one account's state, its requests, and their results.
 *
 * No I/O, clock or randomness here: time, seeds, new ids, share codes and verdicts on passwords
 * arrive in the context. Replaying the changes always gives the live state.
 */
import type { IdCodec, ShareCodes, Tier, TokenCodec } from '@holdfast/kernel'
import type { AccountReply, AccountRequest, Blob, Change, Effect, PasswordVerifier } from '@holdfast/wire'

/** Settings of an installation for all accounts. */
export interface TreeSettings {
  ids: IdCodec
  codes: ShareCodes
  legacyCodes: ShareCodes
  tokens: TokenCodec
  tiers: Record<Tier, TierLimits>
  /** `GET /contents/{id}` and search for every tier. */
  openListing: boolean
  /** Direct links need premium. */
  directLinksPremium: boolean
  /** Guests may upload. */
  guestUploads: boolean
  /** Bytes of metadata of one account. */
  metadataBytesMax: number
  /** How long content lives. Content of premium accounts has no such end. */
  lifetimes: Record<'guest' | 'standard', Lifetimes>
  /** How long deletions by timers can be undone; 0: not at all. */
  undoSeconds: number
}

/** Undefined: none. */
export interface Lifetimes {
  /** Lifetime of a new folder that inherits no expiry. */
  folderSeconds: number | undefined
  /** The longest of a folder. */
  folderSecondsMax: number | undefined
  /** Lifetime of a file after its last download. */
  idleSeconds: number | undefined
}

export const noLifetimes: Lifetimes = {
  folderSeconds: undefined,
  folderSecondsMax: undefined,
  idleSeconds: undefined,
}

export interface TierLimits {
  /** Bytes; undefined: none. */
  storage: number | undefined
  /** Files and folders without root and bin. */
  contents: number | undefined
  /** Bytes of direct traffic shown to clients; undefined: none. */
  traffic: number | undefined
}

export interface DecideContext {
  /** Unix milliseconds. */
  nowMs: number
  /** 16 random bytes; the ids of copies derive from them. */
  seed: Uint8Array
  /** A new content id of this account on each call. */
  newId: () => string
  /**
   * Counters of share codes that this decision may use: next … end-1, leased to the account in this
   * home term. The same for legacy ones, without a term.
   */
  codes: { next: number; end: number; term?: number }
  legacyCodes: { next: number; end: number }
  /** The verdict of the slow check of a password: undefined when it has not run. */
  verdict(verifier: PasswordVerifier, password: string): boolean | undefined
}

/** The outcome of a request. */
export type Outcome =
  /**
   * Nothing changes: an answer or a refusal. Changes that are applied later leave the reply as it
   * is, although it may share texts and records with the state: callers in this process get the
   * object itself. They do not change it either.
   */
  | { kind: 'reply'; reply: AccountReply }
  /**
   * Apply the change, then make the reply from the new state. `uses` are blobs that the account did
   * not use before: their references must be durable before the change is (and before that, a
   * running removal of the same reference must have ended). The routes of the counters next …
   * next+codesUsed-1 of the context, which it uses, must be durable too; the same applies to legacy
   * ones. A change that `mayWait` uses none of these. It may be lost in a crash after its answer,
   * so it need not have a journal row of its own.
   */
  | {
      kind: 'change'
      change: Change
      uses: Blob[]
      codesUsed: number
      legacyCodesUsed: number
      mayWait?: boolean
      reply: () => AccountReply
    }
  /** Undecided: call again with more codes, or with these passwords checked. */
  | {
      kind: 'needs'
      codes?: number
      legacyCodes?: number
      verdicts?: { verifier: PasswordVerifier; password: string }[]
    }
  /**
   * Long work: run it in slices of a few milliseconds with the loop in between; the account's other
   * requests wait.
   */
  | { kind: 'slices'; steps: Generator<void, Outcome> }

/** A checkpoint that holds. */
export interface CheckpointBase {
  /** The cut that it was made by; 0: this state was loaded from it. */
  mark: number
  /** The parts that it has. */
  parts: ReadonlySet<number>
}

export interface CheckpointPart {
  /** Its number among all parts that the account may have. */
  part: number
  /** Undefined: as it is in the checkpoint before. */
  pages: Uint8Array[] | undefined
}

export interface CheckpointCut {
  /** Names this cut, later ones of the same state by greater numbers. */
  mark: number
  /** All parts of the state. */
  parts: CheckpointPart[]
}

export interface AccountState {
  /** Decides one request; changes nothing. Duplicated request ids answer with their kept result. */
  decide(request: AccountRequest, context: DecideContext): Outcome
  /**
   * Applies a decided or replayed change. Deterministic; takes time in proportion to what it
   * affects.
   */
  apply(change: Change): void
  /**
   * The same in slices. Nothing may be read or applied before the last one; an unfinished one is
   * lost whole.
   */
  applying(change: Change): Generator<void, void>
  /**
   * The part of a journaled change that may be applied to a state that lacks earlier changes, and
   * the omitted parts as text. Only for repairs. Changes nothing.
   */
  salvage(change: Change): { change: Change | undefined; left: string[] }
  /**
   * The state as immutable bytes; `load` makes an equal state of all pages, part by part. Pages are
   * at most 256 KiB. Long work: run it in slices like those of a decision; nothing may be applied
   * before the last one.
   *
   * @param base parts that did not change since then are not written; default: all are.
   */
  checkpoint(base?: CheckpointBase): Generator<void, CheckpointCut>
  /** About how many bytes a checkpoint would write that follows the one with this mark. */
  changedBytes(mark: number): number
  /**
   * Pending effects, oldest first. A blob that is used again withdraws its pending release. Read
   * them at once: not valid beyond the next change. Those of earlier changes are also readable
   * while another is being applied.
   * @param after only those with a greater number, without visiting the others; default all.
   * @param through only those up to this number; default all.
   */
  effects(after?: number, through?: number): Iterable<Effect>
  /** The greatest number of an effect so far, done or not; 0: there was none. */
  readonly lastEffect: number
  /** When something is due next (an expiry, the bin), Unix seconds; undefined: nothing. */
  nextDue(): number | undefined
  /**
   * The counter behind the last share code that was used, with the home term in which it was
   * leased: the rest of its block is the account's. 0: there is none.
   */
  readonly nextCode: { next: number; term: number }
  /**
   * Blocks of the share codes in use, each with its route to the account, from a content on. A
   * block that several contents use may come several times. Also readable while a change is being
   * applied, without what that change makes.
   * @returns next: the content to continue from; undefined: there are no more.
   */
  codeBlocks(from: number): { blocks: CodeBlock[]; next: number | undefined }
  /** Where it can be found by its address; undefined: it has none. */
  readonly email: string | undefined
  /** The rest of the block is abandoned: lost changes may have used it. Only for repairs. */
  forgetCodes(): void
  /** Estimated bytes in memory, for passivation. */
  readonly bytes: number
  /** Bytes of metadata that count against the account's cap. */
  readonly metadataBytes: number
  /** False until an account was created in it. */
  readonly exists: boolean
}

/** Which codes share a route. */
export interface CodeBlock {
  /** Characters of the codes. */
  length: 6 | 8
  /** The counters of its codes, divided by their number. */
  block: number
}

export interface AccountStates {
  empty(accountId: string): AccountState
  /** In slices. @throws Error when the pages are not whole, or of another account. */
  load(accountId: string, pages: readonly Uint8Array[]): Generator<void, AccountState>
  /** Content ids, one for each 8 random bytes. Sixteen at once cost a quarter of sixteen calls. */
  newIds(accountId: string, randoms: readonly Uint8Array[]): string[]
}
