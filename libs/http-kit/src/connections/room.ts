/**
 * Room for a new connection on a scarce or full listener: which other one is closed for it.
 *
 * - Above half of the maximum the listener is scarce: with each new connection, the longest idle
 *   connection of the network that has the most is closed. All connections that have never sent a
 *   whole request head count as one network here, and at the maximum they are closed at any age.
 * - At the maximum, when none of that network idles, its slowest connection is closed, if that
 *   network has more than the new connection's network.
 * - Where none of it is known to be slow, the longest idle connection of all is closed, then the
 *   slowest of all requests below 4 KiB/s, then, for a network with few connections, the reader
 *   that has taken nothing for the longest time (`confirmedBytes`), then the youngest of the
 *   network that has more: a network gains nothing by reconnecting. Only then the new connection
 *   is refused.
 * - A connection that was just made or answered may have a request on its way. It stays while
 *   another one may be closed, unless silent ones hold half of the listener.
 * - Idle is a connection without a whole request head: silent, kept alive, or in the middle of its
 *   headers. A request that waits for the service is closed last, and only of a network that has
 *   more than its fair share (`#closeExcess`).
 *
 * Idle connections of proxies are closed only when the listener is full.
 */
import type { Clock } from '@holdfast/kernel'
import {
  type Connection,
  type ConnectionHolder,
  type Network,
  slowBytesPerSecond,
  stalledMs,
} from './connection.ts'

/**
 * A connection that was opened or answered within this time may be about to send, so it is closed
 * only when the listener is full.
 */
const idleMs = 1_000
/** The same time on a full listener: a request head takes a round trip to arrive. */
const graceMs = 250
/** How often the pace of connections is measured while the listener is scarce. */
const lookMs = 100
/** Per client network, however many others there are: a browser sends six requests at a time. */
export const fairShareMin = 6

/** Why a connection was closed to make room. */
export type EvictionReason = 'idle' | 'network' | 'silent' | 'slow' | 'stalled' | 'young'

export interface RoomDeps {
  /** Connections of the listener. */
  max: number
  clock: Clock
  /** Open now. */
  size: () => number
  networks: ReadonlyMap<string, Network>
  /** Requests under way behind proxies, by the client's network. */
  clients: ReadonlyMap<string, ConnectionHolder>
  /** Connections that have never sent a whole request head, except those of proxies. */
  silent: ReadonlySet<Connection>
  /** Closes it; its place is free at once. */
  evict: (connection: Connection, reason: EvictionReason) => void
}

export class Room {
  readonly #deps: RoomDeps
  #looking: NodeJS.Timeout | undefined
  #lookedMs = Number.NEGATIVE_INFINITY

  constructor(deps: RoomDeps) {
    this.#deps = deps
  }

  /** The listener is closed. */
  stop(): void {
    clearTimeout(this.#looking)
  }

  /** @returns whether there is room for one more */
  makeFor(newcomer: Network): boolean {
    const { max } = this.#deps
    if (this.#deps.size() + 1 <= max / 2) return true
    this.#lookSoon()
    // The client of a request from a proxy is not yet known.
    const size = newcomer.isProxy ? 0 : newcomer.open.size
    const largest = largestOf(this.#deps.networks.values())
    // Together they count as one network: many networks with one silent connection each must not
    // make active networks the largest.
    const silentFirst = this.#deps.silent.size >= (largest?.open.size ?? 0)
    if (silentFirst) this.#closeSilent(newcomer, this.#silentMs())
    else if (largest !== undefined && largest.open.size > size) this.closeIdle(largest, 'idle')
    if (this.#deps.size() < max) return true
    this.#look()
    const holder = largestOf(this.#deps.clients.values(), largest)
    const owing = holder !== undefined && holder.open.size > size + 1 ? holder : undefined
    return (
      (owing !== undefined && (this.closeIdle(owing, 'idle', graceMs) || this.#closeSlowest(owing))) ||
      this.#closeAnyIdle(idleMs) ||
      this.#closeSlow(size) ||
      (!newcomer.isProxy && size < fairShareMin && this.#closeStalled()) ||
      (owing !== undefined && this.#closeYoungest(owing)) ||
      this.#closeAnyIdle(graceMs, size) ||
      (owing !== undefined && this.#closeExcess(owing, newcomer))
    )
  }

  /** How long a connection may be silent. */
  #silentMs(): number {
    const { max } = this.#deps
    if (this.#deps.size() < max) return idleMs
    return this.#deps.silent.size > max / 2 ? 0 : graceMs
  }

  /**
   * Closes the oldest silent connection. When the new connection's own network has many silent
   * ones, it closes the oldest of these: a network that keeps reconnecting must not displace
   * connections that are about to send. A few connections that one network opens at the same time
   * do not displace each other: they may wait for their first read.
   */
  #closeSilent(newcomer: Network, afterMs: number): boolean {
    const [oldest] = newcomer.silent.size > fairShareMin ? newcomer.silent : this.#deps.silent
    if (oldest === undefined || this.#deps.clock.monotonic() - oldest.sinceMs < afterMs) return false
    this.#deps.evict(oldest, 'silent')
    return true
  }

  /** The longest idle connection. */
  closeIdle(network: ConnectionHolder, reason: 'idle' | 'network', afterMs = idleMs): boolean {
    let longest: Connection | undefined
    for (const connection of network.open)
      if (
        connection.running === undefined &&
        connection.sinceMs < (longest?.sinceMs ?? Number.POSITIVE_INFINITY)
      )
        longest = connection
    if (longest === undefined || this.#deps.clock.monotonic() - longest.sinceMs < afterMs) return false
    this.#deps.evict(longest, reason)
    return true
  }

  /**
   * The listener is full: the longest idle connection, of proxies and of networks with at least
   * `leastOpen` connections.
   */
  #closeAnyIdle(afterMs: number, leastOpen = 0): boolean {
    let longest: Connection | undefined
    for (const { open, isProxy } of this.#deps.networks.values()) {
      if (open.size < leastOpen && !isProxy) continue
      for (const connection of open)
        if (
          connection.running === undefined &&
          connection.sinceMs < (longest?.sinceMs ?? Number.POSITIVE_INFINITY)
        )
          longest = connection
    }
    if (longest === undefined || this.#deps.clock.monotonic() - longest.sinceMs < afterMs) return false
    this.#deps.evict(longest, 'idle')
    return true
  }

  #closeSlowest(holder: ConnectionHolder): boolean {
    const slowest = slowestOf(holder.open, this.#deps.clock.monotonic(), Number.POSITIVE_INFINITY)
    if (slowest === undefined) return false
    this.#deps.evict(slowest, 'slow')
    return true
  }

  /**
   * The youngest of a network above its fair share, even if it waits for an answer. Where a
   * fair share is less than a browser needs, it is closed only for a network that has less than
   * half of a fair share. The clients of a proxy are not known yet.
   */
  #closeExcess(holder: ConnectionHolder, { open, isProxy }: Network): boolean {
    const networks = this.#deps.networks.size + (open.size === 0 ? 1 : 0)
    const fairShare = this.#deps.max / networks
    const hasFew = !isProxy && open.size < fairShare / 2
    const least = hasFew ? fairShare : Math.max(fairShareMin, fairShare)
    return holder.open.size > least && this.#closeYoungest(holder, true)
  }

  #closeYoungest(holder: ConnectionHolder, isWaitingToo = false): boolean {
    let youngest: Connection | undefined
    for (const connection of holder.open)
      if ((isWaitingToo || !connection.waitsForUs) && connection.sinceMs >= (youngest?.sinceMs ?? 0))
        youngest = connection
    if (youngest === undefined) return false
    this.#deps.evict(youngest, 'young')
    return true
  }

  /** The slowest of all networks that have at least as many as the new connection's. */
  #closeSlow(leastOpen: number): boolean {
    const nowMs = this.#deps.clock.monotonic()
    let slowest: Connection | undefined
    let below = slowBytesPerSecond / 1_000
    const look = ({ open }: ConnectionHolder) => {
      if (open.size < leastOpen) return
      const found = slowestOf(open, nowMs, below)
      if (found === undefined) return
      slowest = found
      below = found.pace(nowMs)
    }
    for (const network of this.#deps.networks.values()) if (!network.isProxy) look(network)
    for (const client of this.#deps.clients.values()) look(client)
    if (slowest === undefined) return false
    this.#deps.evict(slowest, 'slow')
    return true
  }

  /**
   * The reader that has received almost nothing for the longest time. It is closed only for a
   * network with few connections: a network with many could request a large answer on each new one,
   * and so could a proxy, whose clients are not known yet.
   */
  #closeStalled(): boolean {
    const nowMs = this.#deps.clock.monotonic()
    let longest: Connection | undefined
    let longestMs = stalledMs
    for (const { open } of this.#deps.networks.values())
      for (const connection of open) {
        const stalled = connection.stalledMs(nowMs)
        if (stalled < longestMs) continue
        longest = connection
        longestMs = stalled
      }
    if (longest === undefined) return false
    // After an ordinary close the system would keep the bytes that the reader has not received.
    longest.reset()
    this.#deps.evict(longest, 'stalled')
    return true
  }

  #look(): void {
    const nowMs = this.#deps.clock.monotonic()
    if (nowMs - this.#lookedMs < lookMs) return
    this.#lookedMs = nowMs
    for (const { open } of this.#deps.networks.values()) for (const connection of open) connection.look(nowMs)
  }

  /** Measured while the listener is scarce, so that the slow ones are known when it is full. */
  #lookSoon(): void {
    this.#looking ??= setTimeout(() => {
      this.#looking = undefined
      this.#look()
      if (this.#deps.size() > this.#deps.max / 2) this.#lookSoon()
    }, lookMs).unref()
  }
}

function largestOf(
  holders: Iterable<ConnectionHolder & { isProxy?: boolean }>,
  than?: ConnectionHolder,
): ConnectionHolder | undefined {
  let largest = than
  for (const holder of holders)
    if (holder.isProxy !== true && holder.open.size > (largest?.open.size ?? 0)) largest = holder
  return largest
}

/** The slowest of the requests whose known pace is below this. */
function slowestOf(open: Set<Connection>, nowMs: number, below: number): Connection | undefined {
  let slowest: Connection | undefined
  let least = below
  for (const connection of open) {
    if (connection.running === undefined || connection.waitsForUs) continue
    const pace = connection.pace(nowMs)
    if (pace >= least) continue
    slowest = connection
    least = pace
  }
  return slowest
}
