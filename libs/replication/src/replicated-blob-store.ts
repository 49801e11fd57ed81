/**
 * The storage nodes of a region as one blob store, for the frontends that take uploads.
 *
 * A small upload is gathered here and sent to W members in one call each. Its content chooses its
 * group (rendezvous hashing), so a later upload of the same content asks the members that have it.
 *
 * A larger upload takes a writable placement group of its region. Its bytes go to W members as they
 * arrive, the one in this process first. A member that fails is left out, and the upload continues.
 * Before the reply the finished copy is sent from node to node to another member: in the region, or
 * elsewhere when none is left. An acknowledged upload has W synced copies in every case.
 *
 * Dedup considers only groups of this region. It drops the stage only after W members of the known
 * copy's group have answered a pin, which says that the copy is whole on their disks. Each of them
 * serialises pins and deletions. Otherwise the stage becomes a new incarnation. All bytes are
 * always read.
 *
 * No state here outlives the process: groups and peers are views, and nodes remove abandoned
 * stages.
 */
import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  type BlobStage,
  type BlobStore,
  type BlobStoreUsage,
  digestOf,
  nameOfCopy,
  type ReportsHolders,
  type StorageNode,
  smallBlobBytesMax,
  type WholeBytes,
  type WholeReads,
} from '@holdfast/blob-store'
import { type Clock, clientRequest, hex, type Timers } from '@holdfast/kernel'
import { Placement } from '@holdfast/placement'
import { type Holder, readFromAny, readWholeFrom, worstOf } from './failover-read.ts'
import { GatheringStage } from './gathering-stage.ts'
import { nearestFirst, type Peers } from './peers.ts'
import {
  absenceQuorumOf,
  type GroupView,
  nodesOf,
  type PlacementGroup,
  quorumOf,
} from './placement-groups.ts'
import { type KnownCopy, type Leg, type RefusedCopy, ReplicatedStage } from './replicated-stage.ts'
import { type AcknowledgedCopy, SmallPut } from './small-put.ts'

export interface ReplicatedBlobStoreOptions {
  region: string
  /** The node in this process, when it has the storage role: its id in `peers`. */
  localNode: string | undefined
  groups: GroupView
  peers: Peers
  /** Reads the groups again after a node reported that ours are old. */
  refreshGroups: () => Promise<void>
  /** Bytes that a node can still accept, for the choice of a group; undefined when unknown. */
  freeBytesOf: (node: string) => number | undefined
  clock: Clock
  timers: Timers
  /** Generates upload ids, and decides between equal groups. */
  random: (bytes: number) => Uint8Array
  log: { warn(fields: object, message: string): void }
}

/**
 * Nodes of the region that are asked for known content; in larger regions some duplicates are
 * stored twice.
 */
const dedupNodesMax = 16
/**
 * Damaged copies that nodes are asked to replace at a time. Each is one waiting call; the nodes'
 * scrubbers handle more.
 */
const repairsMax = 64
/**
 * Placements tried before an upload is refused: one for old groups, one for a node that failed
 * meanwhile.
 */
const placementAttempts = 3
/** Usual maximum of what a form adds to the bytes of its file: the announced length covers both. */
const formBytesMax = 16 * 1024
/**
 * Bytes of small uploads that wait here, 128 of the largest. Their blocks may be twice as large.
 * Beyond it uploads are staged at the nodes as they come.
 */
const gatheredBytesMax = 32 * 1024 * 1024

export class ReplicatedBlobStore implements BlobStore, WholeReads {
  readonly #options: ReplicatedBlobStoreOptions
  readonly #stages = new Set<ReplicatedStage | GatheringStage>()
  #gatheredBytes = 0
  /**
   * Commits of one content take turns, so that this process never makes two copies in a race with
   * itself.
   */
  readonly #turns = new Map<string, Promise<unknown>>()
  /** Under way. */
  #repairs = 0
  #closed = false

  constructor(options: ReplicatedBlobStoreOptions) {
    this.#options = options
  }

  /**
   * @throws BlobFault `UNAVAILABLE` when no member of any writable group accepts uploads, `FULL`
   *   when all are full. For a small upload `write` or `commit` throws these.
   */
  async stage(
    options: { expectedBytes?: number; signal?: AbortSignal } = {},
  ): Promise<BlobStage & ReportsHolders> {
    this.#assertOpen()
    if (options.signal?.aborted) throw new BlobFault('CANCELLED', 'the upload was aborted before it began')
    const uploadId = this.#options.random(16)
    if ((options.expectedBytes ?? 0) > smallBlobBytesMax + formBytesMax)
      return this.#stageAtNodes(uploadId, options)
    const stage = new GatheringStage(uploadId, {
      assertOpen: () => this.#assertOpen(),
      takeMemory: (bytes) => {
        if (this.#gatheredBytes + bytes > gatheredBytesMax) return false
        this.#gatheredBytes += bytes
        return true
      },
      giveMemory: (bytes) => {
        this.#gatheredBytes -= bytes
      },
      openStage: () => this.#stageAtNodes(uploadId, options),
      put: (bytes, pinMs) => this.#put(uploadId, bytes, pinMs),
      ended: (stage) => this.#stages.delete(stage),
    })
    this.#stages.add(stage)
    return stage
  }

  async #stageAtNodes(
    uploadId: Uint8Array,
    options: { expectedBytes?: number; signal?: AbortSignal },
  ): Promise<BlobStage & ReportsHolders> {
    const faults: BlobFault[] = []
    const tried = new Set<number>()
    for (let attempt = 0; attempt < placementAttempts; attempt++) {
      const group = this.#chooseGroup(tried)
      if (group === undefined) break
      tried.add(group.number)
      const opened = await this.#openLegs(group, uploadId, options)
      faults.push(...opened.faults)
      if (opened.legs.length > 0) return this.#newStage(group, uploadId, opened)
      if (opened.faults.some(({ code }) => code === 'STALE_PLACEMENT')) {
        await this.#options.refreshGroups()
        tried.delete(group.number)
      }
    }
    throw this.#refusal(faults)
  }

  #refusal(faults: readonly BlobFault[]): BlobFault {
    const [first] = faults
    if (first !== undefined && faults.every(({ code }) => code === 'FULL')) return first
    return new BlobFault('UNAVAILABLE', `no storage node of ${this.#options.region} accepts the upload`, {
      cause: first,
    })
  }

  /**
   * Stores a small upload. If too few members of a group store it, their copies are not
   * acknowledged, and are collected later. So each further attempt in another group has a new
   * upload id.
   */
  async #put(firstId: Uint8Array, bytes: Uint8Array, pinMs: number): Promise<AcknowledgedCopy> {
    const blob = { id: digestOf(bytes).id, bytes }
    return this.#inTurn(hex(blob.id), async () => {
      this.#assertOpen()
      const faults: BlobFault[] = []
      const tried = new Set<number>()
      let [uploadId, number]: [Uint8Array, number | undefined] = [firstId, undefined]
      for (let attempt = 0; attempt < placementAttempts; attempt++) {
        const group = this.#groupOf(blob.id, tried)
        if (group === undefined) break
        tried.add(group.number)
        if (number !== undefined && number !== group.number) uploadId = this.#options.random(16)
        number = group.number
        const placement = { group: group.number, version: group.version }
        const options = { uploadId, placement, pinMs, createdMs: this.#options.clock.now() }
        const put = new SmallPut(blob, options, {
          needed: quorumOf(group),
          timers: this.#options.timers,
          broken: (node, fault) => this.#warnBroken(node, fault),
        })
        const copy = await put.run(this.#livingFirst(group))
        if (copy !== undefined) return { ...copy, holders: this.#nearestIds(copy.holders) }
        faults.push(...put.faults)
        if (put.faults.some(({ code }) => code === 'STALE_PLACEMENT')) {
          await this.#options.refreshGroups()
          tried.delete(group.number)
        }
      }
      throw this.#refusal(faults)
    })
  }

  /** Silent members come last: each of them may cost its timeout. */
  #livingFirst(group: PlacementGroup): NodeHolder[] {
    const { localNode, peers } = this.#options
    const isUp = ({ id }: NodeHolder) => id === localNode || peers.isAlive(id)
    const all = this.#nearestOf(group)
    return [...all.filter(isUp), ...all.filter((member) => !isUp(member))]
  }

  /** Undefined once enough members answered: no acknowledged copy can be at the others. */
  async stat(blob: BlobName): Promise<BlobInfo | undefined> {
    this.#assertOpen()
    for (const group of this.#groupsOf(blob)) {
      let absent = 0
      let damaged: BlobInfo | undefined
      const faults: BlobFault[] = []
      const nodes = this.#nearest(nodesOf(group))
      for (const { node } of nodes) {
        const info = await answerOf(node.stat(blob))
        if (info instanceof BlobFault) faults.push(info)
        else if (info === undefined) absent++
        else if (info.damaged) damaged = info
        else return info
        if (absent >= absenceQuorumOf(group)) break
      }
      if (damaged !== undefined) return damaged
      if (absent < absenceQuorumOf(group))
        throw new BlobFault('UNAVAILABLE', `too few nodes of group ${group.number} answer`, {
          cause: faults[0],
        })
    }
    return undefined
  }

  /** From the nearest holder; when it fails, the next one continues at the same byte. */
  async *read(
    blob: BlobName,
    range: { start: number; end: number },
    { signal }: { signal?: AbortSignal } = {},
  ): AsyncIterable<Uint8Array> {
    this.#assertOpen()
    const failed = (holder: string, fault: BlobFault) => {
      if (fault.code !== 'NOT_FOUND')
        this.#options.log.warn(
          { requestId: clientRequest(), holder, code: fault.code },
          'a holder failed; the next one continues',
        )
    }
    const holders = this.#nearest(this.#groupsOf(blob).flatMap(nodesOf))
    try {
      for await (const bytes of readFromAny(holders, blob, range, { signal, failed })) {
        this.#assertOpen()
        yield bytes
      }
    } catch (error) {
      if (error instanceof BlobFault && error.code === 'UNAVAILABLE' && !this.#closed) {
        const info = await answerOf(this.stat(blob))
        if (info === undefined) throw new BlobFault('NOT_FOUND', `no node holds ${nameOfCopy(blob)}`)
      }
      throw error
    }
  }

  /** Small ranges, from the nearest holder alone. */
  async readWhole(blob: BlobName, range: { start: number; end: number }): Promise<WholeBytes | undefined> {
    this.#assertOpen()
    if (range.end - range.start > smallBlobBytesMax) return undefined
    const [nearest] = this.#nearest(this.#groupsOf(blob).flatMap(nodesOf))
    return readWholeFrom(nearest?.node, blob, range)
  }

  /** True once W members of its group have pinned it. */
  async pin(blob: BlobName, { ttlMs }: { ttlMs: number }): Promise<boolean> {
    this.#assertOpen()
    let open: BlobFault | undefined
    for (const group of this.#groupsOf(blob)) {
      const { pinned, faults } = await this.#pinAt(group, nodesOf(group), blob, { ttlMs })
      if (pinned.length >= quorumOf(group)) return true
      if (pinned.length + faults.length >= quorumOf(group)) open ??= faults[0]
    }
    if (open !== undefined) throw new BlobFault('UNAVAILABLE', 'too few nodes answer', { cause: open })
    return false
  }

  /**
   * Deletes at every reachable member that does not pin it; the others' own collectors handle it
   * later.
   * @throws BlobFault when no member answers.
   */
  async delete(blob: BlobName): Promise<'deleted' | 'pinned'> {
    this.#assertOpen()
    const holders = this.#nearest(this.#groupsOf(blob).flatMap(nodesOf))
    const answers = await Promise.all(holders.map(({ node }) => answerOf(node.delete(blob))))
    const faults = answers.filter((answer) => answer instanceof BlobFault)
    if (answers.includes('pinned')) return 'pinned'
    if (faults.length === answers.length && faults.length > 0) throw worstOf(faults)
    return 'deleted'
  }

  /**
   * Every copy once, of all groups of this region. Asks earlier nodes about each copy of later
   * ones: for reconciliation of small regions.
   */
  async *inventory(): AsyncIterable<BlobInfo> {
    this.#assertOpen()
    const groups = this.#regionGroups()
    const numbers = groups.map(({ number }) => number)
    const asked: Holder[] = []
    for (const { id, node } of this.#nearest(groups.flatMap(nodesOf))) {
      try {
        for await (const info of node.inventory({ groups: numbers }))
          if (!(await this.#isAtAny(asked, info))) yield info
      } catch (error) {
        if (!(error instanceof BlobFault) || error.code === 'CLOSED') throw error
        this.#options.log.warn({ node: id, code: error.code }, 'a node does not list its copies')
        continue
      }
      asked.push({ id, node })
    }
  }

  /**
   * Blobs and bytes are those of the fullest node, a lower bound for the region; stages are those
   * of this process; writable when some group has W members that accept uploads.
   */
  async usage(): Promise<BlobStoreUsage> {
    this.#assertOpen()
    const groups = this.#regionGroups()
    const byNode = new Map<string, BlobStoreUsage>()
    await Promise.all(
      this.#nearest(groups.flatMap(({ members }) => members)).map(async ({ id, node }) => {
        const usage = await answerOf(node.usage())
        if (!(usage instanceof BlobFault)) byNode.set(id, usage)
      }),
    )
    const usages = [...byNode.values()]
    const largest = (figure: (usage: BlobStoreUsage) => number) => Math.max(0, ...usages.map(figure))
    const free = groups
      .filter(({ writable }) => writable)
      .map((group) => {
        const room = group.members
          .map((id) => byNode.get(id))
          .map((usage) => (usage?.writable ? usage.freeBytes : 0))
        return room.sort((one, other) => other - one)[quorumOf(group) - 1] ?? 0
      })
    const stages = [...this.#stages]
    return {
      liveBytes: largest(({ liveBytes }) => liveBytes),
      blobs: largest(({ blobs }) => blobs),
      diskBytes: usages.reduce((sum, { diskBytes }) => sum + diskBytes, 0),
      freeBytes: Math.max(0, ...free),
      writable: free.some((bytes) => bytes > 0),
      openStages: stages.length,
      stagedBytes: stages.reduce((sum, { bytesWritten }) => sum + bytesWritten, 0),
    }
  }

  /** Aborts the open stages. The nodes stay open: they belong to their creator. */
  async close(): Promise<void> {
    if (this.#closed) return
    await Promise.all([...this.#stages].map((stage) => stage.abort()))
    this.#closed = true
  }

  // ---- uploads

  /**
   * A writable group with as many living members as possible; the one with this process's node,
   * then the one with the most room.
   */
  #chooseGroup(tried: ReadonlySet<number>): PlacementGroup | undefined {
    const { localNode, random } = this.#options
    const equal = this.#bestGroups(tried, (group) =>
      localNode !== undefined && group.members.includes(localNode) ? 1 : 0,
    )
    const [byte = 0] = random(1)
    return equal[byte % Math.max(1, equal.length)]
  }

  /** The group for this content: of equal groups, all frontends choose the same one. */
  #groupOf(id: Uint8Array, tried: ReadonlySet<number>): PlacementGroup | undefined {
    const equal = this.#bestGroups(tried, () => 0)
    const number = new Placement(equal.map((group) => String(group.number))).hostOf(hex(id))
    return equal.find((group) => String(group.number) === number)
  }

  #bestGroups(tried: ReadonlySet<number>, preference: (group: PlacementGroup) => 0 | 1): PlacementGroup[] {
    const { peers, localNode, freeBytesOf } = this.#options
    const isUp = (id: string) => id === localNode || peers.isAlive(id)
    const score = (group: PlacementGroup) => {
      const up = group.members.filter(isUp)
      const room = Math.min(...up.map((id) => freeBytesOf(id) ?? 0))
      const share = Number.isFinite(room) ? 1 - 1 / (1 + room / 2 ** 30) : 0
      return Math.min(up.length, quorumOf(group)) * 4 + preference(group) * 2 + share
    }
    const open = this.#regionGroups().filter(({ writable, number }) => writable && !tried.has(number))
    const scored = open.map((group) => ({ group, score: score(group) }))
    const best = Math.max(...scored.map(({ score }) => score))
    return scored.filter(({ score }) => score > best - 0.05).map(({ group }) => group)
  }

  /** Opens stages on members until there are W, on those of the home region first. */
  async #openLegs(
    group: PlacementGroup,
    uploadId: Uint8Array,
    { expectedBytes, signal }: { expectedBytes?: number; signal?: AbortSignal },
  ): Promise<{ legs: Leg[]; faults: BlobFault[] }> {
    const legs: Leg[] = []
    const faults: BlobFault[] = []
    const placement = { group: group.number, version: group.version }
    const open = async ({ id, node }: NodeHolder) => {
      const stage = await answerOf(
        node.stage({
          uploadId,
          placement,
          ...(expectedBytes === undefined ? {} : { expectedBytes }),
          ...(signal === undefined ? {} : { signal }),
        }),
      )
      if (stage instanceof BlobFault) faults.push(stage)
      else legs.push({ id, node, stage })
    }
    const members = this.#nearest(group.members)
    // A silent member is left out: waiting for it would cost every upload its timeout.
    const { localNode, peers } = this.#options
    const queue = [
      ...members.filter(({ id }) => id === localNode || peers.isAlive(id)),
      ...this.#nearest(group.remote).filter(({ id }) => peers.isAlive(id)),
    ]
    while (legs.length < quorumOf(group) && queue.length > 0) {
      const needed = quorumOf(group) - legs.length
      const inRegion = queue.filter(({ id }) => group.members.includes(id)).length
      // Bytes are streamed to another region only when no member here accepts them.
      if (inRegion === 0 && legs.length > 0) break
      await Promise.all(queue.splice(0, inRegion === 0 ? 1 : Math.min(needed, inRegion)).map(open))
      if (faults.some(({ code }) => code === 'CANCELLED' || code === 'STALE_PLACEMENT')) break
    }
    const ended = faults.find(({ code }) => code === 'CANCELLED')
    const stale = faults.some(({ code }) => code === 'STALE_PLACEMENT')
    if (ended !== undefined || stale) {
      await Promise.all(legs.map(({ stage }) => stage.abort().catch(() => {})))
      legs.length = 0
    }
    if (ended !== undefined) throw ended
    legs.sort((one, other) => orderOf(members, one.id) - orderOf(members, other.id))
    return { legs, faults }
  }

  #newStage(group: PlacementGroup, uploadId: Uint8Array, { legs }: { legs: Leg[] }): ReplicatedStage {
    const stage = new ReplicatedStage(uploadId, legs, {
      group,
      clock: this.#options.clock,
      assertOpen: () => this.#assertOpen(),
      inTurn: (id, commit) => this.#inTurn(hex(id), commit),
      known: (id, pinMs) => this.#known(id, pinMs),
      repair: (refused, holders) => this.#repair(refused, holders),
      others: (used) => this.#nearestOf(group).filter(({ id }) => !used.has(id)),
      nearestFirst: (nodes) => this.#nearestIds(nodes),
      broken: (node, fault) => this.#warnBroken(node, fault),
      ended: (stage) => this.#stages.delete(stage),
    })
    this.#stages.add(stage)
    return stage
  }

  #warnBroken(node: string, { code, message }: BlobFault): void {
    this.#options.log.warn(
      { requestId: clientRequest(), node, code, error: message },
      'a node lost its part of an upload',
    )
  }

  /**
   * A copy of this content in the region that W members of its group have just pinned, each of them
   * whole on its disk.
   */
  async #known(id: Uint8Array, pinMs: number): Promise<KnownCopy> {
    const members = this.#regionGroups().flatMap(({ members }) => members)
    const nodes = this.#nearest(members).slice(0, dedupNodesMax)
    const { peers, localNode } = this.#options
    const isUp = (node: string) => node === localNode || peers.isAlive(node)
    const asked = nodes.filter((node) => isUp(node.id))
    const answers = await Promise.all(asked.map(({ node }) => answerOf(node.find(id))))
    const deaf = new Set(members.filter((node) => !isUp(node)))
    for (const [n, answer] of answers.entries())
      if (answer instanceof BlobFault) deaf.add((asked[n] as NodeHolder).id)
    const tried = new Set<string>()
    const refused: RefusedCopy[] = []
    for (const copy of answers.flatMap((answer) => (answer instanceof BlobFault ? [] : answer))) {
      const group = this.#options.groups.get(copy.placementGroup ?? 0)
      if (group?.region !== this.#options.region || tried.has(hex(copy.incarnation))) continue
      tried.add(hex(copy.incarnation))
      // Such a pin may have to read the copy, which takes time; so a node that just did not answer
      // is not asked.
      const members = group.members.filter((member) => !deaf.has(member))
      const pins = await this.#pinAt(group, members, copy, { ttlMs: pinMs, whole: true })
      if (pins.pinned.length >= quorumOf(group))
        return { copy: { info: copy, holders: this.#nearestIds(pins.pinned) }, refused }
      refused.push({ copy, by: pins.refused, whole: pins.pinned })
    }
    return { copy: undefined, refused }
  }

  /**
   * Lets nodes replace the damaged copies that an upload found. It is not awaited. The nodes'
   * scrubbers handle failures and what is too much at once.
   */
  #repair(refused: readonly RefusedCopy[], holders: readonly string[]): void {
    for (const { copy, by, whole } of refused)
      for (const node of by) {
        if (this.#repairs >= repairsMax) return
        this.#repairs++
        void this.#repairAt(node, copy, [...whole, ...holders])
          .catch((error: unknown) =>
            this.#options.log.warn({ node: node.id, err: error }, 'a copy could not be repaired'),
          )
          .finally(() => this.#repairs--)
      }
  }

  async #repairAt({ id, node }: NodeHolder, copy: BlobInfo, sources: readonly string[]): Promise<void> {
    const group = this.#options.groups.get(copy.placementGroup ?? 0)
    if (group === undefined || (await node.stat(copy))?.damaged === undefined) return
    const wanted = { ...copy, damaged: undefined }
    const placement = { group: group.number, version: group.version }
    let fault: BlobFault | undefined
    for (const source of sources) {
      const answer = await answerOf(node.copyFrom(source, wanted, { pinMs: 0, placement }))
      if (!(answer instanceof BlobFault)) return
      fault = answer
    }
    const details = { node: id, blob: hex(copy.id), code: fault?.code, error: fault?.message }
    this.#options.log.warn(details, 'a damaged copy could not be replaced after an upload')
  }

  async #pinAt(
    group: PlacementGroup,
    ids: readonly string[],
    blob: BlobName,
    options: { ttlMs: number; whole?: boolean },
  ): Promise<{ pinned: string[]; refused: NodeHolder[]; faults: BlobFault[] }> {
    const placement = { group: group.number, version: group.version }
    const pinned: string[] = []
    const refused: NodeHolder[] = []
    const faults: BlobFault[] = []
    await Promise.all(
      this.#nearest(ids).map(async (holder) => {
        const answer = await answerOf(holder.node.pin(blob, { ...options, placement }))
        if (answer === true) pinned.push(holder.id)
        else if (answer === false) refused.push(holder)
        else faults.push(answer)
      }),
    )
    return { pinned, refused, faults }
  }

  async #inTurn<T>(key: string, run: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(key) ?? Promise.resolve()).then(run)
    const quiet = turn.catch(() => {})
    this.#turns.set(key, quiet)
    try {
      return await turn
    } finally {
      if (this.#turns.get(key) === quiet) this.#turns.delete(key)
    }
  }

  // ---- holders

  #regionGroups(): PlacementGroup[] {
    const { groups, region } = this.#options
    return groups.all().filter((group) => group.region === region)
  }

  /** Where a copy may be: its group when it is named, otherwise all of the region's. */
  #groupsOf({ placementGroup }: BlobName): PlacementGroup[] {
    const group = placementGroup === undefined ? undefined : this.#options.groups.get(placementGroup)
    return group === undefined ? this.#regionGroups() : [group]
  }

  #nearestOf(group: PlacementGroup): NodeHolder[] {
    return [...this.#nearest(group.members), ...this.#nearest(group.remote)]
  }

  #nearest(ids: Iterable<string>): NodeHolder[] {
    const holders: NodeHolder[] = []
    for (const id of this.#nearestIds(ids)) {
      const node = this.#options.peers.node(id)
      if (node !== undefined) holders.push({ id, node })
    }
    return holders
  }

  #nearestIds(ids: Iterable<string>): string[] {
    const { peers, region, localNode } = this.#options
    return nearestFirst(ids, { peers, region, self: localNode })
  }

  async #isAtAny(holders: readonly Holder[], blob: BlobInfo): Promise<boolean> {
    for (const { id } of holders) {
      const info = await answerOf(this.#options.peers.node(id)?.stat(blob) ?? Promise.resolve(undefined))
      if (info !== undefined && !(info instanceof BlobFault)) return true
    }
    return false
  }

  #assertOpen(): void {
    if (this.#closed) throw new BlobFault('CLOSED', 'the store is closed')
  }
}

interface NodeHolder {
  id: string
  node: StorageNode
}

function orderOf(holders: readonly NodeHolder[], id: string): number {
  const at = holders.findIndex((holder) => holder.id === id)
  return at < 0 ? holders.length : at
}

/**
 * The answer, or the fault in its place: one node's failure is a result like others. Any other
 * error is a bug, and is thrown.
 */
export async function answerOf<T>(call: Promise<T>): Promise<T | BlobFault> {
  try {
    return await call
  } catch (error) {
    if (error instanceof BlobFault) return error
    throw error
  }
}
