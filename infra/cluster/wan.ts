/**
 * The links between the regions of a cluster on one machine. Every connection from one region into
 * another passes here, is delayed by the link's delay, and stalls while its direction is cut. Each
 * pair of regions can be cut by itself, in each direction.
 *
 * A cut behaves like a network's: bytes are not lost and not refused, they do not arrive until the
 * cut is over or a side gives up. A connection made during a cut is accepted and gets no answer.
 * Ends and resets are delayed like bytes.
 */
import { connect, createServer, type Server, type Socket } from 'node:net'

export interface Address {
  host: string
  port: number
}

/** Regions that connect to one listener. */
export interface Senders {
  regions: readonly string[]
  /** The region that a connection is from, by its first bytes; undefined while unknown. */
  regionIn(bytes: Buffer): string | undefined
}

export interface Link {
  from: string | Senders
  to: string
  /** Where the other region's process listens. */
  target: Address
  /** Where processes of `from` find it; by default a free port of 127.0.0.1. */
  listen?: Address
}

/** A sender is paused while this many of its bytes are in transit, as by a window. */
const underWayBytesMax = 4 * 1024 * 1024
/** The region of a connection is searched in this many first bytes. */
const namingBytesMax = 4_096

/** What a connection passes in one direction. */
interface Passage {
  readonly delayMs: number
  /** Resolves when bytes may be passed on. */
  passable(): Promise<void>
}

/** One direction between two regions. */
class Direction implements Passage {
  readonly delayMs: number
  #cut: PromiseWithResolvers<void> | undefined

  constructor(delayMs: number) {
    this.delayMs = delayMs
  }

  cut(): void {
    this.#cut ??= Promise.withResolvers()
  }

  join(): void {
    this.#cut?.resolve()
    this.#cut = undefined
  }

  async passable(): Promise<void> {
    while (this.#cut !== undefined) await this.#cut.promise
  }
}

/**
 * The passage of a connection whose region is not known yet. Until the first bytes of the
 * connection name its region, bytes pass if the link of any possible region lets them pass. So the
 * greeting of a server that speaks first passes unless all these links are cut.
 */
class UndecidedPassage implements Passage {
  readonly delayMs: number
  #possible: readonly Direction[]

  constructor(delayMs: number, possible: readonly Direction[]) {
    this.delayMs = delayMs
    this.#possible = possible
  }

  decide(direction: Direction): void {
    this.#possible = [direction]
  }

  async passable(): Promise<void> {
    await Promise.race(this.#possible.map((direction) => direction.passable()))
  }
}

export class Wan {
  readonly #delayMs: number
  readonly #directions = new Map<string, Direction>()
  readonly #servers: Server[] = []
  readonly #sockets = new Set<Socket>()
  /** By region, then by `host:port` of the target. */
  readonly #routes = new Map<string, Map<string, Address>>()

  /** Listening when it resolves. @param options.delayMs one way */
  static async open(links: readonly Link[], { delayMs }: { delayMs: number }): Promise<Wan> {
    const wan = new Wan(delayMs)
    try {
      for (const link of links) await wan.#listen(link)
    } catch (error) {
      wan.close()
      throw error
    }
    return wan
  }

  private constructor(delayMs: number) {
    this.#delayMs = delayMs
  }

  /** Stalls this direction. */
  cut(from: string, to: string): void {
    this.#direction(from, to).cut()
  }

  /** Held bytes continue, in their order. */
  join(from: string, to: string): void {
    this.#direction(from, to).join()
  }

  /** Where processes of a region find the other regions' addresses. */
  routesOf(region: string): Record<string, string> {
    const routes = this.#routes.get(region) ?? new Map<string, Address>()
    return Object.fromEntries([...routes].map(([target, address]) => [target, textOf(address)]))
  }

  /** The address under which `from` reaches the target. */
  routeOf(from: string, target: Address): Address {
    return this.#routes.get(from)?.get(textOf(target)) ?? target
  }

  close(): void {
    for (const server of this.#servers) server.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  #direction(from: string, to: string): Direction {
    const key = `${from} ${to}`
    const direction = this.#directions.get(key) ?? new Direction(this.#delayMs)
    this.#directions.set(key, direction)
    return direction
  }

  async #listen({ from, to, target, listen }: Link): Promise<void> {
    const server = createServer({ allowHalfOpen: true }, (near) => {
      this.#keep(near)
      void this.#carry(near, { target, ...this.#passagesOf(near, { from, to }) })
    })
    this.#servers.push(server)
    await new Promise<void>((resolve, reject) =>
      server.once('error', reject).listen(listen ?? { host: '127.0.0.1', port: 0 }, resolve),
    )
    const { address, port } = server.address() as { address: string; port: number }
    if (typeof from !== 'string') return
    const routes = this.#routes.get(from) ?? new Map<string, Address>()
    this.#routes.set(from, routes.set(textOf(target), { host: address, port }))
  }

  #passagesOf(near: Socket, { from, to }: Pick<Link, 'from' | 'to'>): { there: Passage; back: Passage } {
    if (typeof from === 'string') return { there: this.#direction(from, to), back: this.#direction(to, from) }
    const undecided = (directions: Direction[]) => new UndecidedPassage(this.#delayMs, directions)
    const there = undecided(from.regions.map((region) => this.#direction(region, to)))
    const back = undecided(from.regions.map((region) => this.#direction(to, region)))
    let first = Buffer.alloc(0)
    const listen = (part: Buffer) => {
      first = Buffer.concat([first, part])
      const region = from.regionIn(first)
      if (region !== undefined) {
        there.decide(this.#direction(region, to))
        back.decide(this.#direction(to, region))
      }
      if (region !== undefined || first.length > namingBytesMax) near.off('data', listen)
    }
    near.on('data', listen).pause()
    return { there, back }
  }

  async #carry(
    near: Socket,
    { target, there, back }: { target: Address; there: Passage; back: Passage },
  ): Promise<void> {
    near.pause()
    await waitDelay(there)
    await there.passable()
    if (near.destroyed) return
    const far = connect({ ...target, allowHalfOpen: true })
    this.#keep(far)
    pump(near, far, there)
    pump(far, near, back)
  }

  #keep(socket: Socket): void {
    socket.setNoDelay(true)
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => this.#sockets.delete(socket))
  }
}

/** One direction of one connection: everything in its order, each part delayed by the link. */
function pump(source: Socket, target: Socket, direction: Passage): void {
  let underWayBytes = 0
  let last: Promise<void> = Promise.resolve()
  const send = (bytes: number, arrive: () => void | Promise<void>) => {
    const due = waitDelay(direction)
    underWayBytes += bytes
    if (underWayBytes > underWayBytesMax) source.pause()
    last = last.then(async () => {
      await due
      await direction.passable()
      await arrive()
      underWayBytes -= bytes
      if (underWayBytes <= underWayBytesMax) source.resume()
    })
  }
  source.on('data', (part) => send(part.length, () => written(target, part)))
  source.once('end', () => send(0, () => void target.end()))
  source.once('close', (broken) =>
    send(0, () => void (broken ? target.resetAndDestroy() : target.destroySoon())),
  )
  source.resume()
}

/** Resolves when the target accepts more. */
async function written(target: Socket, part: Buffer): Promise<void> {
  if (target.destroyed || target.write(part)) return
  await new Promise<void>((resolve) => {
    const go = () => {
      target.off('drain', go).off('close', go)
      resolve()
    }
    target.on('drain', go).on('close', go)
  })
}

function waitDelay({ delayMs }: Passage): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, delayMs))
}

function textOf({ host, port }: Address): string {
  return `${host}:${port}`
}
