/**
 * Memory of all layouts of archives: of those being made, those of running responses, and those
 * kept to resume or to be used again. One layout may be all of that at a time, and counts once.
 *
 * - Layouts in use stay. Below half of the budget every network may use another one; above it a
 *   network uses as much as its fair share. One layout that is larger than half of the budget may
 *   be in use besides: it must not shut out all others while its archive is read.
 * - Kept layouts are dropped first: the oldest of the network that has most of them.
 *
 * A network is that of the client for which a layout was made or kept at first.
 */
import { RefusalError } from '@holdfast/http-kit'

/** A folder of a million items has a layout of 200 MB, one of 100,000 items has 20 MB. */
const defaultBytesMax = 96 * 1024 * 1024
/** Memory of each layout besides its columns. */
const overheadBytes = 1024
const retrySeconds = 10

export interface LayoutHolder {
  bytes: number
  network: string
}

interface Held {
  layout: object
  bytes: number
  network: NetworkLayouts
  uses: number
  /** For each map that keeps the layout, the function that removes it from the map. */
  keeps: Set<() => void>
}

interface NetworkLayouts {
  name: string
  usedBytes: number
  keptBytes: number
  /** Kept and not in use, the oldest first. */
  idle: Set<Held>
  /** The number of all its layouts. */
  count: number
}

export class LayoutBudget {
  readonly #bytesMax: number
  readonly #held = new Map<object, Held>()
  readonly #networks = new Map<string, NetworkLayouts>()
  /** Without large ones. */
  #usedBytes = 0
  #keptBytes = 0
  /** Bytes of layouts in use that are larger than half of the budget. */
  #largeBytes = 0

  constructor({ bytesMax = defaultBytesMax }: { bytesMax?: number } = {}) {
    this.#bytesMax = bytesMax
  }

  /** Bytes of all layouts. */
  get bytes(): number {
    return this.#usedBytes + this.#largeBytes + this.#keptBytes
  }

  /** @throws RefusalError error-unavailable unless the layout may be used now */
  admit(layout: object, { bytes, network }: LayoutHolder): void {
    const held = this.#held.get(layout)
    if (held !== undefined && held.uses > 0) return
    if (!this.#fits(bytes + overheadBytes, network))
      throw new RefusalError('error-unavailable', { retryAfter: retrySeconds })
  }

  /**
   * Until the returned function is called, the layout stays. Ask `admit` before. The function may
   * be called once.
   */
  use(layout: object, holder: LayoutHolder): () => void {
    const held = this.#of(layout, holder)
    if (held.uses++ === 0) this.#moved(held, 1)
    this.#makeRoom()
    return () => {
      if (--held.uses === 0) this.#moved(held, -1)
      this.#forgetUnheld(held)
      this.#makeRoom()
    }
  }

  /**
   * Keeps the layout as long as there is room.
   *
   * @param drop is called when it has to be dropped, maybe at once
   * @returns ends the keeping without `drop`; does nothing when it has ended
   */
  keep(layout: object, holder: LayoutHolder, drop: () => void): () => void {
    const held = this.#of(layout, holder)
    held.keeps.add(drop)
    if (held.uses === 0) this.#idle(held)
    this.#makeRoom()
    return () => {
      held.keeps.delete(drop)
      this.#forgetUnheld(held)
    }
  }

  #isLarge(bytes: number): boolean {
    return bytes > this.#bytesMax / 2
  }

  #fits(bytes: number, name: string): boolean {
    if (this.#isLarge(bytes)) return this.#largeBytes === 0
    const after = this.#usedBytes + bytes
    if (after <= this.#bytesMax / 2) return true
    if (after > this.#bytesMax) return false
    const used = this.#networks.get(name)?.usedBytes ?? 0
    if (used === 0) return true
    let users = 0
    for (const network of this.#networks.values()) if (network.usedBytes > 0) users++
    return used + bytes <= this.#bytesMax / users
  }

  #of(layout: object, { bytes, network: name }: LayoutHolder): Held {
    const known = this.#held.get(layout)
    if (known !== undefined) return known
    const network = this.#networks.get(name) ?? {
      ...{ name, usedBytes: 0, keptBytes: 0, idle: new Set(), count: 0 },
    }
    this.#networks.set(name, network)
    network.count++
    const held: Held = { layout, bytes: bytes + overheadBytes, network, uses: 0, keeps: new Set() }
    this.#held.set(layout, held)
    // It counts as kept until it is used.
    network.keptBytes += held.bytes
    this.#keptBytes += held.bytes
    return held
  }

  /** @param sign 1: use begins. -1: use ends. */
  #moved(held: Held, sign: 1 | -1): void {
    const { bytes, network } = held
    this.#keptBytes -= sign * bytes
    network.keptBytes -= sign * bytes
    if (this.#isLarge(bytes)) this.#largeBytes += sign * bytes
    else {
      this.#usedBytes += sign * bytes
      network.usedBytes += sign * bytes
    }
    if (sign > 0) network.idle.delete(held)
    else if (held.keeps.size > 0) this.#idle(held)
  }

  /** It is the youngest one. */
  #idle(held: Held): void {
    held.network.idle.delete(held)
    held.network.idle.add(held)
  }

  #forgetUnheld(held: Held): void {
    const { layout, bytes, network } = held
    if (held.uses > 0 || held.keeps.size > 0 || this.#held.get(layout) !== held) return
    this.#held.delete(layout)
    network.idle.delete(held)
    network.keptBytes -= bytes
    this.#keptBytes -= bytes
    if (--network.count === 0) this.#networks.delete(network.name)
  }

  #makeRoom(): void {
    while (this.bytes > this.#bytesMax) {
      let most: NetworkLayouts | undefined
      for (const network of this.#networks.values())
        if (network.idle.size > 0 && network.keptBytes > (most?.keptBytes ?? 0)) most = network
      const [oldest] = most?.idle ?? []
      if (oldest === undefined) return
      const drops = [...oldest.keeps]
      oldest.keeps.clear()
      this.#forgetUnheld(oldest)
      for (const drop of drops) drop()
    }
  }
}
