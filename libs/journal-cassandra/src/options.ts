/** Where a Cassandra is, and how it is used. */
import type { TlsContext } from '@holdfast/trust'

export interface CassandraOptions {
  contactPoints: string[]
  /** Of contact points that name none. Undefined: 9042. */
  port: number | undefined
  /** The region's data centre. */
  dataCentre: string
  keyspace: string
  /** Replicas by data centre, for the keyspace when it is made or gets further data centres. */
  replication: Record<string, number>
  /** Asked for each connection: it may change. Undefined: the nodes need none. */
  credentials: (() => { user: string; password: string }) | undefined
  /**
   * The authority of the nodes' certificates, and the certificate that is shown to them.
   * Undefined: no encryption.
   */
  tls: Pick<TlsContext, 'secureContext'> | undefined
  /**
   * Called with each request that ended: how long it took, and whether it failed. Undefined:
   * nothing counts them.
   */
  onRequest: ((figures: { ms: number; failed: boolean }) => void) | undefined
}

export interface CassandraTuning {
  /** The schema; default: the one of these stores. */
  migrations?: readonly (readonly string[])[]
}
