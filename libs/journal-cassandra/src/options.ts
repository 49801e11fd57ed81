/** Where a Cassandra is, and how it is used. */
import type { TlsContext } from '@holdfast/trust'

export interface CassandraOptions {
  contactPoints: string[]
  port?: number
  /** The region's data centre. */
  dataCentre: string
  keyspace: string
  /** Replicas by data centre, for the keyspace when it is made or gets further data centres. */
  replication: Record<string, number>
  /** Asked for each connection: it may change. */
  credentials?: (() => { user: string; password: string }) | undefined
  /**
   * The authority of the nodes' certificates, and the certificate that is shown to them. Default:
   * no encryption.
   */
  tls?: Pick<TlsContext, 'secureContext'> | undefined
  /** Milliseconds a request may take before its outcome counts as unknown. */
  requestTimeoutMs?: number
  /** Called with each request that ended: how long it took, and whether it failed. */
  onRequest?: ((figures: { ms: number; failed: boolean }) => void) | undefined
  /** The schema; default: the one of these stores. */
  migrations?: readonly (readonly string[])[]
}
