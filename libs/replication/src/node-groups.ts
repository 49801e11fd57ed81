/**
 * The groups from a storage node's view, and what it admits. A node refuses requests with a version
 * older than its own, and every upload to a group that it has closed or left. So each blob
 * that is acknowledged for a group is held by the group's nodes.
 */
import { BlobFault, type GroupVersion, type StoreNotes } from '@holdfast/blob-store'
import { GroupMap, type GroupView, nodesOf, type PlacementGroup } from './placement-groups.ts'

export interface NodeGroupsOptions {
  nodeId: string
  /** Notes in this node's store: what the node has agreed to survives a restart. */
  notes: StoreNotes
  /** Reads the group's row; undefined when there is none. */
  lookUp: (group: number) => Promise<PlacementGroup | undefined>
}

const noteName = 'placement-groups'

export class NodeGroups implements GroupView {
  readonly nodeId: string
  readonly #notes: StoreNotes
  readonly #lookUp: NodeGroupsOptions['lookUp']
  readonly #map = new GroupMap()
  /** Groups that this node is in, or was in. */
  readonly #concerning = new Set<number>()
  /** Groups that this node is about to leave. */
  readonly #closing = new Set<number>()
  /** Open uploads, by group. */
  readonly #stages = new Map<number, number>()
  readonly #waiting = new Map<number, (() => void)[]>()
  #saving: Promise<void> = Promise.resolve()

  private constructor({ nodeId, notes, lookUp }: NodeGroupsOptions) {
    this.nodeId = nodeId
    this.#notes = notes
    this.#lookUp = lookUp
  }

  static async open(options: NodeGroupsOptions): Promise<NodeGroups> {
    const groups = new NodeGroups(options)
    const note = await options.notes.note(noteName)
    if (note !== undefined)
      for (const group of JSON.parse(Buffer.from(note).toString('utf8')) as PlacementGroup[]) {
        groups.#map.learn(group)
        groups.#concerning.add(group.number)
      }
    return groups
  }

  get(number: number): PlacementGroup | undefined {
    return this.#map.get(number)
  }

  all(): readonly PlacementGroup[] {
    return this.#map.all()
  }

  /** Groups that this node holds. */
  own(): PlacementGroup[] {
    return this.#map.all().filter((group) => nodesOf(group).includes(this.nodeId))
  }

  /**
   * Stores a version. Durable when it resolves: from then on older ones are refused, also after a
   * restart.
   */
  async learn(group: PlacementGroup): Promise<void> {
    if (!this.#map.learn(group)) return
    if (nodesOf(group).includes(this.nodeId)) this.#concerning.add(group.number)
    else this.#closing.delete(group.number)
    if (!this.#concerning.has(group.number)) return
    const saved = this.#saving.then(() => this.#save())
    this.#saving = saved.catch(() => {})
    await saved
  }

  /**
   * Admits an upload. @returns ends it.
   * @throws BlobFault `STALE_PLACEMENT` for an older version, a closed group, or one that this node
   *   is no member of; `UNAVAILABLE` when the caller knows a version that the node cannot read yet.
   */
  async admitStage(placement: GroupVersion): Promise<() => void> {
    await this.admit(placement)
    const group = this.#map.get(placement.group)
    if (placement.group !== 0 && (group?.writable !== true || this.#closing.has(placement.group)))
      throw new BlobFault('STALE_PLACEMENT', `group ${placement.group} no longer accepts uploads`)
    return this.#countStage(placement.group)
  }

  /**
   * As `admitStage`, for operations that continue in a closing group: pins, and copies between its
   * nodes.
   */
  async admit(placement: GroupVersion): Promise<void> {
    if (placement.group === 0) return // a standalone store has no map
    if ((this.#map.get(placement.group)?.version ?? 0) < placement.version) {
      const group = await this.#lookUp(placement.group)
      if (group !== undefined) await this.learn(group)
    }
    const group = this.#map.get(placement.group)
    if (group === undefined || group.version < placement.version)
      throw new BlobFault(
        'UNAVAILABLE',
        `group ${placement.group} is known here in version ${group?.version ?? 'none'}, not ${placement.version}`,
      )
    if (placement.version < group.version)
      throw new BlobFault(
        'STALE_PLACEMENT',
        `group ${placement.group} is at version ${group.version}, not ${placement.version}`,
      )
    this.assertMember(placement.group)
  }

  /** @throws BlobFault `STALE_PLACEMENT` when this node has left the group, or was never in it. */
  assertMember(number: number): void {
    if (number === 0) return
    const group = this.#map.get(number)
    if (group === undefined || !nodesOf(group).includes(this.nodeId))
      throw new BlobFault('STALE_PLACEMENT', `${this.nodeId} is no member of group ${number}`)
  }

  /** Admits no more uploads; for this life of the node, or until it joins the group again. */
  close(number: number): void {
    this.#closing.add(number)
  }

  openStages(number: number): number {
    return this.#stages.get(number) ?? 0
  }

  /**
   * Resolves when no upload to the group is open here. Close the group, or this node's part,
   * before; otherwise it may never resolve.
   */
  async quiet(number: number): Promise<void> {
    while (this.openStages(number) > 0)
      await new Promise<void>((resolve) => {
        this.#waiting.set(number, [...(this.#waiting.get(number) ?? []), resolve])
      })
  }

  #countStage(number: number): () => void {
    this.#stages.set(number, this.openStages(number) + 1)
    let over = false
    return () => {
      if (over) return
      over = true
      const left = this.openStages(number) - 1
      if (left > 0) this.#stages.set(number, left)
      else {
        this.#stages.delete(number)
        for (const resolve of this.#waiting.get(number) ?? []) resolve()
        this.#waiting.delete(number)
      }
    }
  }

  async #save(): Promise<void> {
    const known = this.#map.all().filter(({ number }) => this.#concerning.has(number))
    await this.#notes.setNote(noteName, Buffer.from(JSON.stringify(known)))
  }
}
