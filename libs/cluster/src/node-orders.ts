/**
 * The operator's decisions about storage nodes: rows `nodes/all/<name>`. A node that is `draining`
 * moves its groups away and may be stopped permanently when it has none left. One that is `removed`
 * is permanently gone: its copies are made again elsewhere at once, and it takes no part even if it
 * comes back. A node without a row is an ordinary one.
 */
import type { Bus, Subscription } from '@holdfast/bus'
import type { LookupStore } from '@holdfast/journal'

export type NodeOrder = 'draining' | 'removed'

const prefix = 'nodes/all/'
const changedSubject = 'nodes.changed'
const rereadMs = 2_000

export class NodeOrders {
  readonly #lookups: LookupStore
  readonly #bus: Bus
  readonly #timer: NodeJS.Timeout
  readonly #subscription: Subscription
  #orders: ReadonlyMap<string, NodeOrder> = new Map()

  constructor({
    lookups,
    bus,
    onFault,
  }: { lookups: LookupStore; bus: Bus; onFault: (error: unknown) => void }) {
    this.#lookups = lookups
    this.#bus = bus
    const reread = () => void this.refresh().catch(onFault)
    this.#timer = setInterval(reread, rereadMs)
    this.#subscription = bus.subscribe(changedSubject, reread)
  }

  of(node: string): NodeOrder | undefined {
    return this.#orders.get(node)
  }

  all(): ReadonlyMap<string, NodeOrder> {
    return this.#orders
  }

  /** @throws what the lookups throw */
  async refresh(): Promise<void> {
    const orders = new Map<string, NodeOrder>()
    for await (const { key, value } of this.#lookups.scan(prefix))
      orders.set(key.slice(prefix.length), Buffer.from(value).toString() as NodeOrder)
    this.#orders = orders
  }

  /**
   * @param order undefined: an ordinary node again. Durable in this region when it resolves; others
   *   follow.
   */
  async set(node: string, order: NodeOrder | undefined): Promise<void> {
    const key = prefix + node
    await this.#lookups.write([
      order === undefined ? { delete: key } : { put: key, value: Buffer.from(order) },
    ])
    await this.refresh()
    this.#bus.publish(changedSubject, new Uint8Array())
  }

  close(): void {
    clearInterval(this.#timer)
    this.#subscription.close()
  }
}
