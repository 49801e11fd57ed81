/**
 * The total load of other nodes on a node: calls, connections, and memory for bytes. Beyond a bound
 * the node refuses with the reason, and counts it.
 */
import { BlobFault } from '@holdfast/blob-store'

/** Why a node refused a connection, a call or a stream. */
export const refusalReasons = ['connections', 'strangers', 'unproven', 'calls', 'ahead', 'bytes'] as const
export type RefusalReason = (typeof refusalReasons)[number]

export interface NodeBounds {
  /** Connections of the two listeners. Default 1,024 and 4,096. */
  connections?: { control: number; bytes: number }
  /** Concurrent calls on all connections: each holds a request of at most 64 KiB. Default 2,048. */
  callsMax?: number
  /** Memory for bytes in transit from and to others. Default 256 MiB: 1,024 large reads. */
  bytesMax?: number
}

/** Current figures, and refusals since the start. */
export interface NodeFigures {
  connections: { control: number; bytes: number }
  calls: number
  bytes: number
  refused: Readonly<Record<RefusalReason, number>>
}

export class NodeLoad {
  readonly bounds: Required<NodeBounds>
  readonly refused = Object.fromEntries(refusalReasons.map((reason) => [reason, 0])) as Record<
    RefusalReason,
    number
  >
  #calls = 0
  #bytes = 0

  constructor(bounds: NodeBounds) {
    this.bounds = {
      connections: { control: 1024, bytes: 4096 },
      callsMax: 2048,
      bytesMax: 256 * 1024 * 1024,
      ...bounds,
    }
  }

  get calls(): number {
    return this.#calls
  }

  get bytes(): number {
    return this.#bytes
  }

  /** @returns ends the call; undefined when too many are running */
  beginCall(): (() => void) | undefined {
    if (this.#calls >= this.bounds.callsMax) {
      this.refused.calls++
      return undefined
    }
    this.#calls++
    return once(() => {
      this.#calls--
    })
  }

  /** @returns releases the memory. @throws BlobFault UNAVAILABLE when there is none */
  holdBytes(bytes: number): () => void {
    const { bytesMax } = this.bounds
    if (this.#bytes + bytes > bytesMax) {
      this.refused.bytes++
      throw new BlobFault('UNAVAILABLE', `${this.#bytes} of ${bytesMax} bytes are under way to other nodes`)
    }
    this.#bytes += bytes
    return once(() => {
      this.#bytes -= bytes
    })
  }
}

function once(act: () => void): () => void {
  let isDone = false
  return () => {
    if (!isDone) act()
    isDone = true
  }
}
