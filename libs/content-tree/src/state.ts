/** The state of one account behind the contract: decisions, changes, checkpoints. */
import type { AccountId } from '@holdfast/kernel'
import type { AccountRequest, Change, Effect } from '@holdfast/wire'
import { Account, noCode } from './account/account.ts'
import { applyChange } from './apply.ts'
import { changedBytesOf, checkpointOf } from './checkpoints/checkpoint.ts'
import { loadAccount } from './checkpoints/load.ts'
import { type SalvageResult, salvage } from './checkpoints/salvage.ts'
import type {
  AccountState,
  AccountStates,
  CheckpointBase,
  CheckpointCut,
  CodeBlock,
  DecideContext,
  Outcome,
  TreeSettings,
} from './contract.ts'
import type { PreparedIds } from './copy.ts'
import { decide } from './decide/decide.ts'
import { nextDue } from './decide/tick.ts'
import { codeBlocksOf } from './decide/uses.ts'

export function createAccountStates(settings: TreeSettings): AccountStates {
  return {
    empty: (accountId) => new State(new Account(accountId), settings),
    *load(accountId, pages) {
      return new State(yield* loadAccount(accountId, pages), settings)
    },
    newIds: (accountId, randoms) => settings.ids.contents(accountId as AccountId, randoms),
  }
}

class State implements AccountState {
  readonly #account: Account
  readonly #settings: TreeSettings
  #prepared: PreparedIds | undefined

  constructor(account: Account, settings: TreeSettings) {
    this.#account = account
    this.#settings = settings
  }

  get bytes(): number {
    return this.#account.bytes
  }

  get metadataBytes(): number {
    return this.#account.tree.savedBytes
  }

  get exists(): boolean {
    return this.#account.record !== undefined
  }

  decide(request: AccountRequest, context: DecideContext): Outcome {
    return decide(this.#account, request, {
      settings: this.#settings,
      context,
      prepared: (ids) => {
        this.#prepared = ids
      },
    })
  }

  apply(change: Change): void {
    const steps = this.applying(change)
    while (steps.next().done !== true);
  }

  *applying(change: Change): Generator<void, void> {
    yield* applyChange(this.#account, change, { settings: this.#settings, prepared: this.#prepared })
    this.#prepared = undefined
  }

  salvage(change: Change): SalvageResult {
    return salvage(this.#account, change)
  }

  checkpoint(base?: CheckpointBase): Generator<void, CheckpointCut> {
    return checkpointOf(this.#account, base)
  }

  changedBytes(mark: number): number {
    return changedBytesOf(this.#account, mark)
  }

  effects(after?: number, through?: number): Iterable<Effect> {
    return this.#account.effects.all(after, through)
  }

  get nextCode(): { next: number; term: number } {
    return this.#account.nextCode
  }

  codeBlocks(from: number): { blocks: CodeBlock[]; next: number | undefined } {
    return codeBlocksOf(this.#account.tree, from, this.#settings)
  }

  get email(): string | undefined {
    return this.#account.record?.email
  }

  forgetCodes(): void {
    this.#account.nextCode = noCode
  }

  get lastEffect(): number {
    return this.#account.effects.last
  }

  nextDue(): number | undefined {
    return nextDue(this.#account, this.#settings)
  }
}
