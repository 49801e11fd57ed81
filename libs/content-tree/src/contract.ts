/**
 * The pure core's interface: one account's state, what may be asked of it, and what follows.
 *
 * No I/O, clock or randomness in here: time, seeds, share codes and verdicts on passwords arrive in
 * the context. Replaying the changes gives the live state, always.
 */
import type { IdCodec, ShareCodes, TokenCodec } from '@holdfast/kernel'
import type { AccountReply, AccountRequest, Blob, Change, Effect, PasswordVerifier } from '@holdfast/wire'

/** What an installation fixes for all accounts. */
export interface TreeSettings {
  ids: IdCodec
  codes: ShareCodes
  legacyCodes: ShareCodes
  tokens: TokenCodec
  limits: Record<'guest' | 'standard' | 'premium', TierLimits>
  /** `GET /contents/{id}` and search for every tier. */
  openListing: boolean
  /** Direct links need premium. */
  directLinksPremium: boolean
  /** Bytes of metadata of one account; default `metadataBytesMax`. */
  metadataBytesMax?: number
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
  /** 16 random bytes; every id made by this decision derives from them. */
  seed: Uint8Array
  /**
   * Counters of share codes this decision may use: next … end-1, leased to the account in this home
   * term. Legacy likewise, without a term.
   */
  codes: { next: number; end: number; term?: number }
  legacyCodes: { next: number; end: number }
  /** What the slow check of a password said: undefined when it has not been asked. */
  verdict(verifier: PasswordVerifier, password: string): boolean | undefined
}

/** What comes of a request. */
export type Outcome =
  /**
   * Nothing changes: an answer or a refusal. The reply stays as it is whatever is applied later,
   * although it may share texts and records with the state: askers in this process are given the
   * object itself. They change nothing in it either.
   */
  | { kind: 'reply'; reply: AccountReply }
  /**
   * Apply the change, then make the reply from the new state. `uses` are blobs the account did not
   * use before: their references must be durable before the change is (and before that, a removal
   * of the same reference that is under way must have ended), and so must be the routes of the
   * counters next … next+codesUsed-1 of the context, which it uses; legacy ones likewise.
   */
  | {
      kind: 'change'
      change: Change
      uses: Blob[]
      codesUsed: number
      legacyCodesUsed: number
      reply: () => AccountReply
    }
  /** Cannot say yet: ask again with more codes, or with these passwords checked. */
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

export interface AccountState {
  /**
   * Decides one request; changes nothing. Duplicated request ids answer with the outcome kept for
   * them.
   */
  decide(request: AccountRequest, context: DecideContext): Outcome
  /**
   * Applies a decided or replayed change. Deterministic; takes time in proportion to what it
   * touches.
   */
  apply(change: Change): void
  /**
   * The same in slices. Nothing may be asked or applied before the last one; what was begun and not
   * ended is lost whole.
   */
  applying(change: Change): Generator<void, void>
  /**
   * What of a journaled change may be applied to a state that lacks changes before it, and what was
   * left out of it, in words. For repairs alone. Changes nothing.
   */
  salvage(change: Change): { change: Change | undefined; left: string[] }
  /**
   * The state as immutable bytes; `load` makes an equal state of them. Pages are at most 256 KiB.
   * Long work: run it in slices like those of a decision; nothing may be applied before the last
   * one.
   */
  checkpoint(): Generator<void, Uint8Array[]>
  /**
   * Effects that are not done yet, oldest first. A blob taken into use again takes its pending
   * release back. To be read at once: not valid beyond the next change. Those of earlier changes
   * may be asked for also while another is being applied.
   * @param after only those with a greater number, without touching what is not asked for; default
   * all.
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
   * The rest of the block is given up: changes that are lost may have used it. For repairs alone.
   */
  forgetCodes(): void
  /** Estimated bytes in memory, for passivation. */
  readonly bytes: number
  /** Bytes of metadata that count against the account's cap. */
  readonly metadataBytes: number
  /** False until an account was created in it. */
  readonly exists: boolean
}

export interface AccountStates {
  empty(accountId: string): AccountState
  /** In slices. @throws Error when the pages are not whole, or of another account. */
  load(accountId: string, pages: readonly Uint8Array[]): Generator<void, AccountState>
}
