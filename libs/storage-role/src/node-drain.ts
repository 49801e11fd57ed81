/**
 * Empties this node while the operator drains it: it leaves one group after the other, each when
 * other nodes have all its copies.
 */
import type { ClusterPart } from '@holdfast/cluster'
import type { RegionCode } from '@holdfast/kernel'
import { type LocalNode, leaveGroup, nodesOf, type PlacementGroup } from '@holdfast/replication'

const lookMs = 2_000

export class NodeDrain {
  readonly #cluster: ClusterPart
  readonly #node: LocalNode
  #timer: NodeJS.Timeout | undefined
  #leaving: Promise<void> | undefined
  #closed = false

  constructor(cluster: ClusterPart, node: LocalNode) {
    this.#cluster = cluster
    this.#node = node
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#leaving ??= this.#leave().finally(() => {
        this.#leaving = undefined
      })
    }, lookMs)
  }

  /** Ends after the current group. */
  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    await this.#leaving
  }

  async #leave(): Promise<void> {
    const { nodes, config, peers, log } = this.#cluster
    for (const { number } of this.#node.groups.own()) {
      if (this.#closed || nodes.of(this.#node.id) !== 'draining') return
      try {
        const { copies, handedOver } = await leaveGroup(number, {
          node: this.#node,
          peers,
          region: config.region,
          publish: (group) => this.#publish(group),
          replacement: (group) => this.#replacement(group),
        })
        log.info({ group: number, copies, handedOver }, 'the group was left')
      } catch (error) {
        log.warn({ group: number, err: error }, 'the group cannot be left yet; a retry follows')
      }
    }
  }

  /** @returns the latest version, whichever node wrote it. */
  async #publish(group: PlacementGroup): Promise<PlacementGroup> {
    const { groups } = this.#cluster
    await groups.propose(group.region as RegionCode, group)
    await groups.refresh()
    return groups.map.get(group.number) ?? group
  }

  #replacement(group: PlacementGroup): string | undefined {
    const { peers, nodes } = this.#cluster
    const taken = nodesOf(group)
    return peers
      .beats()
      .filter(({ id, region, ready }) => region === group.region && ready && !taken.includes(id))
      .filter(({ id }) => nodes.of(id) === undefined)
      .sort((one, other) => other.freeBytes - one.freeBytes)[0]?.id
  }
}
