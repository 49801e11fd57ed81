/**
 * The operator's decisions about storage nodes: rows `nodes/all/<name>`. A node that is `draining`
 * moves its groups away and may be stopped permanently when it has none left. One that is `removed`
 * is permanently gone: its copies are made again elsewhere at once, and it takes no part even if it
 * comes back. A node without a row is an ordinary one.
 */
import type { Bus } from '@holdfast/bus'
import type { LookupStore } from '@holdfast/journal'
import { nodeStatesPrefix } from '../row-keys.ts'
import { RereadTimer } from '../sharing/reread-timer.ts'
import { heardByAll } from '../subjects.ts'

export type NodeAdminState = 'draining' | 'removed'

export class NodeAdminStates {
  readonly #lookups: LookupStore
  readonly #bus: Bus
  readonly #rereading: RereadTimer
  #states: ReadonlyMap<string, NodeAdminState> = new Map()

  constructor({
    lookups,
    bus,
    onFault,
  }: { lookups: LookupStore; bus: Bus; onFault: (error: unknown) => void }) {
    this.#lookups = lookups
    this.#bus = bus
    const read = () => void this.refresh().catch(onFault)
    this.#rereading = new RereadTimer({ bus, subject: heardByAll.nodeStates, read })
  }

  of(node: string): NodeAdminState | undefined {
    return this.#states.get(node)
  }

  all(): ReadonlyMap<string, NodeAdminState> {
    return this.#states
  }

  /** @throws what the lookups throw */
  async refresh(): Promise<void> {
    const states = new Map<string, NodeAdminState>()
    for await (const { key, value } of this.#lookups.scan(nodeStatesPrefix))
      states.set(key.slice(nodeStatesPrefix.length), Buffer.from(value).toString() as NodeAdminState)
    this.#states = states
  }

  /**
   * @param state undefined: an ordinary node again. Durable in this region when it resolves; others
   *   follow.
   */
  async set(node: string, state: NodeAdminState | undefined): Promise<void> {
    const key = nodeStatesPrefix + node
    await this.#lookups.write([
      state === undefined ? { delete: key } : { put: key, value: Buffer.from(state) },
    ])
    await this.refresh()
    this.#bus.publish(heardByAll.nodeStates, new Uint8Array())
  }

  close(): void {
    this.#rereading.close()
  }
}
