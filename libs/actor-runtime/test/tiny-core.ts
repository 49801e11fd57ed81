/**
 * A small core for tests: folders and files by name, codes, passwords, timers, mails, and bugs on
 * demand.
 */
import type {
  AccountState,
  AccountStates,
  CheckpointCut,
  CodeBlock,
  DecideContext,
  Outcome,
} from '@holdfast/content-tree'
import { codesPerBlock, hex } from '@holdfast/kernel'
import {
  AccountReply,
  type AccountRequest,
  type Blob,
  blank,
  type Change,
  type Effect,
  type Event,
  Item,
  PasswordVerifier,
  type Reconcile,
  type ReportDownloads,
} from '@holdfast/wire'

interface TinyRecord {
  exists: boolean
  folders: Record<string, { id: string; code: string; expiry?: number | undefined }>
  /** Name → hex of the blob. */
  files: Record<string, string>
  /** Downloads of files, by name. */
  downloads: Record<string, number>
  /** Source of reports → its last one. */
  reports: Record<string, number>
  outcomes: Record<string, string>
  verifier: string | undefined
  effects: { number: number; blob?: string; mail?: boolean }[]
  nextCode: { next: number; term: number }
  nextEffect: number
}

const pageBytes = 100_000
/** Blobs in use per page of a look. */
const usesPerLook = 2
/** Contents per page of a look. */
const codesPerLook = 100

export class TinyStates implements AccountStates {
  /** Decisions made, by operation or folder name, over all accounts. */
  readonly decided: string[] = []
  /** Changes applied, live or replayed. */
  applied = 0
  /** Folders an account may have. */
  foldersMax = 1_000_000
  refusesAccounts = false
  /** Addresses by account. */
  readonly emails = new Map<string, string>()

  readonly #latest = new Map<string, TinyRecord>()

  /** First bytes, hex, of the blobs that the state loaded last uses. */
  usedBlobs(account: string): string[] {
    return Object.values(this.#latest.get(account)?.files ?? {}).map((hex) => hex.slice(0, 2))
  }

  #state(account: string, record: TinyRecord, savedBytes = 0): TinyState {
    this.#latest.set(account, record)
    return new TinyState(account, this, record, savedBytes)
  }

  empty(account: string): TinyState {
    return this.#state(account, {
      exists: false,
      folders: {},
      files: {},
      downloads: {},
      reports: {},
      outcomes: {},
      verifier: undefined,
      effects: [],
      nextEffect: 1,
      nextCode: { next: 0, term: 0 },
    })
  }

  *load(account: string, pages: readonly Uint8Array[]): Generator<void, TinyState> {
    yield
    const bytes = Buffer.concat(pages)
    return this.#state(account, JSON.parse(bytes.toString()) as TinyRecord, bytes.length)
  }

  newIds(_account: string, randoms: readonly Uint8Array[]): string[] {
    return randoms.map((random) => hex(random))
  }
}

class TinyState implements AccountState {
  readonly #account: string
  readonly #states: TinyStates
  readonly #record: TinyRecord
  #savedBytes: number

  constructor(account: string, states: TinyStates, record: TinyRecord, savedBytes: number) {
    this.#account = account
    this.#states = states
    this.#record = record
    this.#savedBytes = savedBytes
  }

  get exists(): boolean {
    return this.#record.exists
  }

  get bytes(): number {
    return 1000 + 100 * Object.keys(this.#record.folders).length
  }

  salvage(change: Change): { change: Change | undefined; left: string[] } {
    return { change, left: [] }
  }

  get metadataBytes(): number {
    return this.bytes
  }

  nextDue(): number | undefined {
    const due = Object.values(this.#record.folders).flatMap(({ expiry }) => expiry ?? [])
    return due.length === 0 ? undefined : Math.min(...due)
  }

  get lastEffect(): number {
    return this.#record.nextEffect - 1
  }

  get nextCode(): { next: number; term: number } {
    return this.#record.nextCode
  }

  /** Codes are `C` and their counter. */
  codeBlocks(from: number): { blocks: CodeBlock[]; next: number | undefined } {
    const codes = Object.values(this.#record.folders).map(({ code }) => Number(code.slice(1)))
    const blocks = codes.slice(from, from + codesPerLook).map((counter) => {
      return { length: 8 as const, block: Math.floor(counter / codesPerBlock) }
    })
    return { blocks, next: from + codesPerLook < codes.length ? from + codesPerLook : undefined }
  }

  get email(): string | undefined {
    return this.#states.emails.get(this.#account)
  }

  forgetCodes(): void {
    this.#record.nextCode = { next: 0, term: 0 }
  }

  *effects(after = 0, through = this.lastEffect): Generator<Effect> {
    for (const { number, blob, mail } of this.#record.effects) {
      if (number <= after || number > through) continue
      if (blob) yield { number, effect: { $case: 'blobReleased', value: { blob: blobOf(blob) } } }
      if (mail)
        yield {
          number,
          effect: { $case: 'signInMail', value: { email: 'a@example.org', tokenKeyId: 1, tokenCounter: 0 } },
        }
    }
  }

  /** As if a third of what was saved last had changed. */
  changedBytes(): number {
    return this.#savedBytes / 3
  }

  *checkpoint(): Generator<void, CheckpointCut> {
    // A change between the slices would show.
    for (let slice = 0; slice < 3; slice++) yield
    const bytes = Buffer.from(JSON.stringify(this.#record))
    this.#savedBytes = bytes.length
    const pages: Uint8Array[] = []
    for (let at = 0; at < bytes.length; at += pageBytes) pages.push(bytes.subarray(at, at + pageBytes))
    return { mark: 0, parts: [{ part: 0, pages }] }
  }

  decide(request: AccountRequest, context: DecideContext): Outcome {
    const operation = request.operation
    const kept = this.#record.outcomes[hex(request.requestId)]
    if (kept !== undefined) return { kind: 'reply', reply: AccountReply.decode(Buffer.from(kept, 'hex')) }
    this.#states.decided.push(
      operation?.$case === 'createFolder' ? (operation.value.name ?? '') : String(operation?.$case),
    )
    if (operation?.$case === 'reconcile') return this.#uses(operation.value)
    const created =
      operation?.$case === 'createAccount' ||
      (operation?.$case === 'addFile' && operation.value.createAccount)
    if (!this.#record.exists && !created) return refusal('error-notFound')
    if (!this.#record.exists && this.#states.refusesAccounts) return refusal('error-limits')
    switch (operation?.$case) {
      case 'createAccount':
        return this.#record.exists
          ? refusal('error-exists')
          : this.#change(request, context, [accountCreated(this.#account)])
      case 'createFolder':
        return this.#createFolder(request, context, operation.value.name ?? '')
      case 'addFile': {
        const { name, blob } = operation.value
        const used = Object.values(this.#record.files).includes(hexOf(blob as Blob))
        const fresh = this.#record.exists ? [] : [accountCreated(this.#account)]
        return this.#change(
          request,
          context,
          [...fresh, fileAdded(name, blob as Blob)],
          used ? [] : [blob as Blob],
        )
      }
      case 'deleteContents':
        return this.#change(request, context, [deleted(operation.value.contentIds)])
      case 'updateContent': {
        const { attribute, contentId } = operation.value
        if (attribute === undefined) return refusal('error-attribute')
        const event = {
          event: { $case: 'attributeSet', value: { id: contentId, attribute, time: 0 } },
        } as Event
        return this.#change(request, context, [event])
      }
      case 'readContent':
        return this.#read(operation.value.password, context)
      case 'reportDownloads':
        return this.#report(request, context, operation.value)
      case 'sendSignIn':
        return this.#change(request, context, [{ event: { $case: 'signInRequested', value: { time: 0 } } }])
      case 'tick': {
        const due = Object.entries(this.#record.folders).filter(
          ([, { expiry }]) => expiry !== undefined && expiry * 1000 <= context.nowMs,
        )
        if (due.length === 0) return { kind: 'reply', reply: done() }
        return this.#change(request, context, [deleted(due.map(([name]) => name))])
      }
      default:
        return { kind: 'reply', reply: this.#view() }
    }
  }

  #createFolder(request: AccountRequest, context: DecideContext, name: string): Outcome {
    const [kind = '', detail = ''] = name.split(':')
    if (kind === 'bug' && detail === 'decide') throw new Error('planted in decide')
    if (Object.keys(this.#record.folders).length >= this.#states.foldersMax) return refusal('error-limits')
    const count = kind === 'many' ? Number(detail) : 1
    if (context.codes.end - context.codes.next < count) {
      this.#states.decided.pop()
      return { kind: 'needs', codes: count }
    }
    const events = Array.from({ length: count }, (_, at) =>
      folderAdded({
        id: `${hex(context.seed)}-${at}`,
        name: kind === 'large' ? `${'x'.repeat(Number(detail))}` : count > 1 ? `${name}/${at}` : name,
        code: `C${String(context.codes.next + at).padStart(7, '0')}`,
      }),
    )
    const outcome = this.#change(request, context, events, [], count)
    return kind === 'slices' ? { kind: 'slices', steps: this.#slices(Number(detail), outcome) } : outcome
  }

  *#slices(count: number, outcome: Outcome): Generator<void, Outcome> {
    for (let step = 0; step < count; step++) {
      this.#states.decided.push(`slice ${step}`)
      yield
    }
    return outcome
  }

  #read(password: string | undefined, context: DecideContext): Outcome {
    const { verifier: kept } = this.#record
    if (kept === undefined) return { kind: 'reply', reply: this.#view() }
    if (password === undefined) return refusal('error-passwordRequired')
    const verifier = PasswordVerifier.decode(Buffer.from(kept, 'hex'))
    const verdict = context.verdict(verifier, password)
    if (verdict === undefined) return { kind: 'needs', verdicts: [{ verifier, password }] }
    return verdict ? { kind: 'reply', reply: this.#view() } : refusal('error-passwordWrong')
  }

  #report(request: AccountRequest, context: DecideContext, report: ReportDownloads): Outcome {
    const source = hex(report.source)
    if (report.sequence <= (this.#record.reports[source] ?? 0)) return { kind: 'reply', reply: done() }
    const event: Event = { event: { $case: 'downloadsReported', value: { report } } }
    return { ...this.#change(request, context, [event]), mayWait: true }
  }

  #change(
    request: AccountRequest,
    context: DecideContext,
    events: Event[],
    uses: Blob[] = [],
    codesUsed = 0,
  ): Extract<Outcome, { kind: 'change' }> {
    const names = events.flatMap(({ event }) => (event?.$case === 'folderAdded' ? event.value : []))
    const reply: AccountReply = {
      result: {
        $case: 'items',
        value: { items: names.map(({ id, code }) => ({ ...blank(Item), id, code })) },
      },
    }
    const change: Change = {
      requestId: Buffer.from(request.requestId),
      timeMs: context.nowMs,
      events,
      outcome: Buffer.from(AccountReply.encode(reply).finish()),
      seed: Buffer.from(context.seed),
      codeStart: context.codes.next,
      operation: 0,
      codesUsed: codesUsed > 0 ? { count: codesUsed, term: context.codes.term ?? 0 } : undefined,
    }
    return { kind: 'change', change, uses, codesUsed, legacyCodesUsed: 0, reply: () => reply }
  }

  #uses({ uses, suspects }: Reconcile): Outcome {
    const files = [...new Set(Object.values(this.#record.files))].sort()
    const used = uses === undefined ? [] : files.slice(uses.row, uses.row + usesPerLook)
    const more = uses !== undefined && uses.row + usesPerLook < files.length
    const known = new Set([...files, ...this.#record.effects.map(({ blob }) => blob)])
    const value = {
      used: used.map((hex) => Buffer.from(hex, 'hex')),
      strangers: suspects.filter((name) => !known.has(hex(name))),
      next: more ? { epoch: uses.epoch, row: uses.row + usesPerLook, content: 0 } : undefined,
      looked: used.length,
      missing: 0,
      orphaned: 0,
      mended: 0,
      routes: 0,
      missingRoutes: 0,
      tier: 'guest',
    }
    return { kind: 'reply', reply: { result: { $case: 'reconcile', value } } }
  }

  #view(): AccountReply {
    const { folders, files } = this.#record
    const items: Item[] = Object.entries(folders).map(([name, { id, code }]) => ({
      ...blank(Item),
      id,
      name,
      code,
      isFolder: true,
    }))
    for (const name of Object.keys(files))
      items.push({ ...blank(Item), id: name, name, downloads: this.#record.downloads[name] ?? 0 })
    return { result: { $case: 'items', value: { items } } }
  }

  /** Makes requests and changes between the slices visible. */
  *applying(change: Change): Generator<void, void> {
    yield
    this.#states.applied++
    for (const { event } of change.events) this.#applyEvent(event)
    const { codeStart, codesUsed } = change
    if (codesUsed !== undefined)
      this.#record.nextCode = { next: codeStart + codesUsed.count, term: codesUsed.term }
    for (let slice = 0; slice < 3; slice++) yield
    this.#keepOutcome(change)
  }

  apply(change: Change): void {
    const steps = this.applying(change)
    while (steps.next().done !== true);
  }

  #keepOutcome(change: Change): void {
    const isReport = change.events[0]?.event?.$case === 'downloadsReported'
    if (change.requestId.length === 0 || isReport) return
    const id = hex(change.requestId)
    if (this.#record.outcomes[id] !== undefined) throw new Error(`request ${id} was executed twice`)
    this.#record.outcomes[id] = hex(change.outcome)
  }

  #applyEvent(event: Event['event']): void {
    const record = this.#record
    switch (event?.$case) {
      case 'accountCreated':
        record.exists = true
        break
      case 'folderAdded': {
        const { id, name, code } = event.value
        if (name === 'bug:apply') throw new Error('planted in apply')
        record.folders[name] = { id, code }
        break
      }
      case 'fileAdded': {
        const blob = hexOf(event.value.blob as Blob)
        record.files[event.value.name] = blob
        record.effects = record.effects.filter((effect) => effect.blob !== blob)
        break
      }
      case 'contentsDeleted':
        for (const name of event.value.ids) this.#delete(name)
        break
      case 'attributeSet': {
        const { id, attribute } = event.value
        const folder = record.folders[id]
        if (attribute?.$case === 'expiry' && folder) folder.expiry = attribute.value.expiry
        if (attribute?.$case === 'password')
          record.verifier =
            attribute.value.verifier && hex(PasswordVerifier.encode(attribute.value.verifier).finish())
        break
      }
      case 'downloadsReported': {
        const { source, sequence, counts } = event.value.report as ReportDownloads
        record.reports[hex(source)] = sequence
        for (const { contentId: name, count } of counts)
          record.downloads[name] = (record.downloads[name] ?? 0) + count
        break
      }
      case 'signInRequested':
        record.effects.push({ number: record.nextEffect++, mail: true })
        break
      case 'effectsDone': {
        const numbers = new Set(event.value.numbers)
        record.effects = record.effects.filter(({ number }) => !numbers.has(number))
        break
      }
      default:
        throw new Error(`no such event here: ${event?.$case}`)
    }
  }

  #delete(name: string): void {
    const { folders, files } = this.#record
    const blob = files[name]
    delete folders[name]
    delete files[name]
    if (blob !== undefined && !Object.values(files).includes(blob))
      this.#record.effects.push({ number: this.#record.nextEffect++, blob })
  }
}

function refusal(status: string): Outcome {
  return { kind: 'reply', reply: { result: { $case: 'refusal', value: { status } } } }
}

function done(): AccountReply {
  return { result: { $case: 'done', value: {} } }
}

function accountCreated(id: string): Event {
  return {
    event: {
      $case: 'accountCreated',
      value: { id, rootId: '', binId: '', tokenKeyId: 1, createTime: 0, email: undefined },
    },
  }
}

function folderAdded({ id, name, code }: { id: string; name: string; code: string }): Event {
  const value = {
    id,
    name,
    code,
    parentId: '',
    createTime: 0,
    modTime: 0,
    isPublic: false,
    password: undefined,
    expiry: undefined,
  }
  return { event: { $case: 'folderAdded', value } }
}

function fileAdded(name: string, blob: Blob): Event {
  const value = { id: name, name, blob, code: '', parentId: '', createTime: 0, modTime: 0, mimetype: '' }
  return { event: { $case: 'fileAdded', value } }
}

function deleted(ids: string[]): Event {
  return {
    event: { $case: 'contentsDeleted', value: { ids, toBin: false, time: 0, sweep: undefined, ended: [] } },
  }
}

/** A blob named by one byte. */
export function blob(byte: number): Blob {
  return {
    id: Buffer.alloc(48, byte),
    incarnation: Buffer.alloc(16, byte),
    size: 1,
    crc32: 0,
    placementGroup: 0,
  }
}

function hexOf({ id, incarnation }: Blob): string {
  return hex(Buffer.concat([id, incarnation]))
}

function blobOf(hex: string): Blob {
  const bytes = Buffer.from(hex, 'hex')
  return { ...blob(0), id: bytes.subarray(0, 48), incarnation: bytes.subarray(48) }
}
