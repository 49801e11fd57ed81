/** For tests that need a Cassandra. */
import type { MetadataStoreOptions } from './index.ts'
import type { CassandraOptions } from './options.ts'

/** Default parts of a connection in tests: the only data centre, without login and encryption. */
export const plainConnection: Omit<CassandraOptions, 'contactPoints' | 'keyspace'> = {
  port: undefined,
  dataCentre: 'eu-par',
  replication: { 'eu-par': 1 },
  credentials: undefined,
  tls: undefined,
  onRequest: undefined,
}

/** Default parts of a store: all accounts are in their first term, and there is no backup. */
export const plainStore: MetadataStoreOptions = {
  termOf: () => 1,
  claimed: ['email', 'setting'],
  backup: undefined,
  handedOver: () => false,
}
