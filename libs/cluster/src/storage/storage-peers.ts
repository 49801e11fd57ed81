/** The storage nodes known from heartbeats, for replication and frontends. */
import type { StorageNode } from '@holdfast/blob-store'
import { RemoteBlobStore } from '@holdfast/blob-store-grpc'
import type { Clock } from '@holdfast/kernel'
import type { NatsMembership } from '@holdfast/membership-nats'
import type { Peers } from '@holdfast/replication'
import type { TlsContext } from '@holdfast/trust'
import type { Heartbeat } from '@holdfast/wire/cluster'

interface KnownPeer {
  control: string
  bytes: string
  region: string
  node: RemoteBlobStore
}

export class StoragePeers implements Peers {
  readonly #membership: NatsMembership
  readonly #secret: () => readonly string[]
  readonly #tls: TlsContext | undefined
  readonly #clock: Clock
  readonly #known = new Map<string, KnownPeer>()
  #local: { id: string; region: string; node: StorageNode } | undefined

  constructor({
    membership,
    secret,
    tls,
    clock,
  }: {
    membership: NatsMembership
    /** The current secrets. Calls are proven with the first. */
    secret: () => readonly string[]
    tls: TlsContext | undefined
    clock: Clock
  }) {
    this.#membership = membership
    this.#secret = secret
    this.#tls = tls
    this.#clock = clock
  }

  /** The node of this process is reached without the network. */
  set local(local: { id: string; region: string; node: StorageNode }) {
    this.#local = local
  }

  /** Undefined when this process has no storage role. */
  get localId(): string | undefined {
    return this.#local?.id
  }

  /** A silent node keeps its last address. */
  node(id: string): StorageNode | undefined {
    if (id === this.#local?.id) return this.#local.node
    const beat = this.#beatOf(id)
    const known = this.#known.get(id)
    const { control, bytes } = beat?.addresses ?? {}
    if (beat === undefined || control === undefined || bytes === undefined) return known?.node
    if (known?.control === control && known.bytes === bytes) return known.node
    void known?.node.close()
    const node = new RemoteBlobStore({
      node: id,
      control,
      bytes,
      secret: this.#secret,
      tls: this.#tls,
      clock: this.#clock,
    })
    this.#known.set(id, { control, bytes, region: beat.region, node })
    return node
  }

  isAlive(id: string): boolean {
    return this.#beatOf(id)?.ready === true
  }

  regionOf(id: string): string | undefined {
    return this.#beatOf(id)?.region ?? this.#known.get(id)?.region
  }

  /** The host of its address between nodes. Undefined: it was not heard in this life. */
  machineOf(id: string): string | undefined {
    const control = this.#beatOf(id)?.addresses.control ?? this.#known.get(id)?.control
    return control?.slice(0, control.lastIndexOf(':'))
  }

  freeBytesOf(id: string): number | undefined {
    return this.#beatOf(id)?.freeBytes
  }

  /** All living storage nodes, ready or not. */
  beats(): Heartbeat[] {
    return this.#membership.beats().filter(({ roles }) => roles.includes('storage-node'))
  }

  async close(): Promise<void> {
    await Promise.all([...this.#known.values()].map(({ node }) => node.close()))
  }

  #beatOf(id: string): Heartbeat | undefined {
    const beat = this.#membership.beatOf(id)
    return beat?.roles.includes('storage-node') ? beat : undefined
  }
}
