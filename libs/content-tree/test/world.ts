/**
 * An account under test: sends requests, applies, and remembers every change, so that replay can be
 * compared.
 */
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { type AccountId, hex, Keyring, sha256 } from '@holdfast/kernel'
import {
  type AccountOperation,
  AccountReply,
  AccountRequest,
  type Blob,
  blank,
  Change,
  type Item,
  type PasswordVerifier,
} from '@holdfast/wire'
import {
  type AccountState,
  createAccountStates,
  type DecideContext,
  type Outcome,
  type TreeSettings,
} from '../src/index.ts'
import { plainSettings } from '../src/testing.ts'
import { canonical } from './canonical.ts'

export const ring = new Keyring(Buffer.alloc(32, 7))

export const settings = plainSettings(ring, {
  tiers: {
    guest: { storage: undefined, contents: 10_000, traffic: undefined },
    standard: { storage: undefined, contents: 10_000, traffic: undefined },
    premium: { storage: undefined, contents: undefined, traffic: undefined },
  },
})

export const startMs = 1_700_000_000_000

export type CallerCase = NonNullable<NonNullable<AccountRequest['caller']>['who']>
type Result = NonNullable<AccountReply['result']>

export const visitor: CallerCase = { $case: 'visitor', value: { accountId: '' } }
export const operator: CallerCase = { $case: 'operator', value: {} }
export const system: CallerCase = { $case: 'system', value: {} }

/** Optional fields of a request: protobuf's defaults. */
type LooseFields<Value> = { [Key in keyof Value]?: Value[Key] }
export type Ask = {
  [Case in AccountOperation['$case']]?: LooseFields<Extract<AccountOperation, { $case: Case }>['value']>
}

/** Each kind with the defaults of its fields: a message of one empty field is one of them. */
const blankOperations = new Map<string, object>()
for (let field = 1; field < 100; field++) {
  const tag = field * 8 + 2
  const { operation } = AccountRequest.decode(Buffer.of((tag % 128) + 128, Math.floor(tag / 128), 0))
  if (operation !== undefined) blankOperations.set(operation.$case, operation.value)
}

export interface AskResult {
  result: Result
  change: Change | undefined
  outcome: Outcome
}

export class World {
  readonly id: AccountId
  readonly settings: TreeSettings
  readonly changes: Change[] = []
  state: AccountState
  nowMs = startMs
  codes = 0
  legacyCodes = 0
  /** Passwords checked, in order. */
  readonly checked: string[] = []
  #requests = 0

  constructor(options: Partial<TreeSettings> & { account?: number } = {}) {
    const { account = 1, ...rest } = options
    this.settings = { ...settings, ...rest }
    const random = Buffer.alloc(8)
    random.writeUInt32BE(account)
    this.id = ring.ids.account('eu-par', random)
    this.state = createAccountStates(this.settings).empty(this.id)
  }

  get now(): number {
    return Math.floor(this.nowMs / 1000)
  }

  get states() {
    return createAccountStates(this.settings)
  }

  bearer(counter = 0, keyId = 1): CallerCase {
    const token = Buffer.from(ring.tokens.token(this.id, { keyId, counter }), 'base64url')
    return { $case: 'bearer', value: { token } }
  }

  requestId(): Buffer {
    const id = Buffer.alloc(16)
    // A millisecond apart each, well within the tolerance of a frontend's clock.
    id.writeUIntBE(this.nowMs + (++this.#requests % 50_000), 0, 6)
    id.writeUInt32BE(this.#requests, 8)
    return id
  }

  request(who: CallerCase, ask: Ask, more: { requestId?: Buffer; tierNeeded?: string } = {}): AccountRequest {
    const [[$case, value] = []] = Object.entries(ask)
    // Through the wire, as in production.
    const request = {
      ...blank(AccountRequest),
      accountId: this.id,
      requestId: more.requestId ?? this.requestId(),
      clientNetwork: undefined,
      clientRequest: undefined,
      traceparent: undefined,
      tierNeeded: more.tierNeeded ?? '',
      caller: { who },
      operation: { $case, value: { ...blankOperations.get($case as string), ...value } } as AccountOperation,
    }
    return AccountRequest.decode(AccountRequest.encode(request).finish())
  }

  /** The content that has a share code, as visitors see it. */
  contentOf(code: string | undefined): string | undefined {
    const { result } = this.ask(
      { $case: 'visitor', value: { accountId: '' } },
      { findCode: { code: code ?? '' } },
    )
    return result?.$case === 'code' ? result.value.contentId : undefined
  }

  context(): DecideContext {
    const digest = createHash('sha256').update(`${this.id}/${this.#requests}/${this.changes.length}`).digest()
    const seed = digest.subarray(0, 16)
    let ids = 0
    return {
      nowMs: this.nowMs,
      seed,
      newId: () => this.settings.ids.content(this.id, sha256([seed, Buffer.of(0, 0, 0, ids++)])),
      codes: { next: this.codes, end: this.codes + 200_000 },
      legacyCodes: { next: this.legacyCodes, end: this.legacyCodes + 10 },
      verdict: (verifier, password) => this.#verdict(verifier, password),
    }
  }

  /** Decides, in slices if need be; changes nothing. */
  decide(request: AccountRequest, context = this.context()): Outcome {
    let outcome = this.state.decide(request, context)
    // As the runtime does it: a bounded number of slow checks per request, wrong unchecked beyond
    // it.
    const unseen = new Set<PasswordVerifier>()
    const verdict: DecideContext['verdict'] = (verifier, password) =>
      unseen.has(verifier) ? false : context.verdict(verifier, password)
    for (let slow = 0; outcome.kind === 'needs' && outcome.verdicts !== undefined; ) {
      for (const { verifier, password } of outcome.verdicts) {
        if (slow++ < slowChecksMax) this.#check(verifier, password)
        else unseen.add(verifier)
      }
      outcome = this.state.decide(request, { ...context, verdict })
    }
    if (outcome.kind !== 'slices') return outcome
    for (;;) {
      const step = outcome.steps.next()
      if (step.done === true) return step.value
    }
  }

  send(request: AccountRequest): AskResult {
    const outcome = this.decide(request)
    if (outcome.kind === 'needs' || outcome.kind === 'slices')
      throw new Error(`${outcome.kind} was not expected`)
    if (outcome.kind === 'reply') return { result: through(outcome.reply), change: undefined, outcome }
    const change = Change.decode(Change.encode(outcome.change).finish())
    this.codes += outcome.codesUsed
    this.legacyCodes += outcome.legacyCodesUsed
    this.state.apply(change)
    this.changes.push(change)
    return { result: through(outcome.reply()), change, outcome }
  }

  ask(who: CallerCase, ask: Ask, more: { requestId?: Buffer; tierNeeded?: string } = {}): AskResult {
    return this.send(this.request(who, ask, more))
  }

  /** The status of a refusal, `ok` for anything else. */
  status(who: CallerCase, ask: Ask, more: { requestId?: Buffer; tierNeeded?: string } = {}): string {
    const { result } = this.ask(who, ask, more)
    return result.$case === 'refusal' ? result.value.status : 'ok'
  }

  item(who: CallerCase, ask: Ask): Item {
    const { result } = this.ask(who, ask)
    if (result.$case !== 'content' || result.value.item === undefined)
      throw new Error(`no content: ${JSON.stringify(result)}`)
    return result.value.item
  }

  account() {
    const { result } = this.ask(operator, { getAccount: {} })
    if (result.$case !== 'account') throw new Error(`no account: ${JSON.stringify(result)}`)
    return result.value
  }

  create(options: { email?: string; tier?: string } = {}): string {
    const { email, tier } = options
    this.ask(system, { createAccount: { tokenKeyId: 1, ...(email === undefined ? {} : { email }) } })
    if (tier !== undefined) this.ask(operator, { setAccount: { tier } })
    return this.account().rootFolder
  }

  folder(parentFolderId: string, more: { name?: string; isPublic?: boolean } = {}): Item {
    return this.item(operator, { createFolder: { parentFolderId, ...more } })
  }

  file(folderId: string, name = 'file.txt', blob: Blob = blobOf(name)): Item {
    return this.item(operator, { addFile: { folderId, name, mimetype: 'text/plain', blob } })
  }

  read(who: CallerCase, contentId: string, more: Ask['readContent'] = {}): Item {
    return this.item(who, { readContent: { ...firstPage, contentId, ...more } })
  }

  /** Ends all effects, as the runtime does. */
  settle(): void {
    const numbers = [...this.state.effects()].map((effect) => effect.number)
    if (numbers.length === 0) return
    const change: Change = {
      ...blank(Change),
      timeMs: this.nowMs,
      events: [{ event: { $case: 'effectsDone', value: { numbers } } }],
    }
    this.state.apply(change)
    this.changes.push(change)
  }

  replayed(): AccountState {
    const state = this.states.empty(this.id)
    for (const change of this.changes) state.apply(Change.decode(Change.encode(change).finish()))
    return state
  }

  #verdict(verifier: PasswordVerifier, password: string): boolean | undefined {
    const key = `${hex(verifier.salt)}:${password}`
    return this.checked.includes(key) ? verifier.hash.equals(hashOf(password, verifier.salt)) : undefined
  }

  #check(verifier: PasswordVerifier, password: string): void {
    this.checked.push(`${hex(verifier.salt)}:${password}`)
  }
}

const slowChecksMax = 3

export const firstPage = { page: 1, pageSize: 1000, sortField: 1, maxDepth: 1 } as const

function through(reply: AccountReply): Result {
  const { result } = AccountReply.decode(AccountReply.encode(reply).finish())
  if (result === undefined) throw new Error('an empty reply')
  return result
}

export function blobOf(text: string, size = text.length): Blob {
  const digest = createHash('sha512').update(text).digest()
  const more = createHash('sha256').update(text).digest()
  return {
    id: digest.subarray(0, 48),
    incarnation: more.subarray(0, 16),
    size,
    crc32: more.readUInt32BE(16),
    placementGroup: 0,
  }
}

/** What a reader sends for a password. */
export function sent(password: string): string {
  return createHash('sha256').update(password).digest('hex')
}

export function passwordOf(password: string, salt = password): PasswordVerifier {
  const saltBytes = createHash('md5').update(salt).digest()
  return { salt: saltBytes, hash: hashOf(sent(password), saltBytes), cost: 14 }
}

function hashOf(password: string, salt: Buffer): Buffer {
  return createHash('sha256').update(salt).update(password).digest()
}

/** The checkpoint of a state, all of it. */
export function pagesOf(state: AccountState): Uint8Array[] {
  return ended(state.checkpoint()).parts.flatMap(({ pages }) => pages ?? [])
}

/** The state of a checkpoint. */
export function restored(world: World, pages: readonly Uint8Array[]): AccountState {
  return ended(world.states.load(world.id, pages))
}

/** Runs slices to their end. */
export function ended<Result>(steps: Generator<void, Result>): Result {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

/** Whether two checkpoints are of equal states, also if their rows are divided differently. */
export function equal(one: readonly Uint8Array[], other: readonly Uint8Array[]): boolean {
  return isDeepStrictEqual(canonical(one), canonical(other))
}

/** Whether replay and the checkpoint both give the state that the changes made. */
export function holds(world: World): boolean {
  const pages = pagesOf(world.state)
  return equal(pages, pagesOf(world.replayed())) && equal(pages, pagesOf(restored(world, pages)))
}
