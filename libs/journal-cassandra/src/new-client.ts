/** A client of the driver: all clients are made here. */
import type { TlsContext } from '@holdfast/trust'
import cassandra from 'cassandra-driver'
import { withSteadyControl } from './control-connection-patch.ts'
import type { CassandraOptions } from './options.ts'

const { consistencies } = cassandra.types

export type ClientOptions = Pick<
  CassandraOptions,
  'contactPoints' | 'port' | 'dataCentre' | 'credentials' | 'tls'
>

/** How long a request may take before its outcome counts as unknown. */
const requestTimeoutMs = 4_000

export function newClient(
  options: ClientOptions,
  { keyspace, timeoutMs = requestTimeoutMs }: { keyspace?: string; timeoutMs?: number } = {},
): cassandra.Client {
  const client = new cassandra.Client({
    contactPoints: options.contactPoints,
    localDataCenter: options.dataCentre,
    ...(keyspace === undefined ? {} : { keyspace }),
    protocolOptions: { port: options.port ?? 9042 },
    ...(options.credentials === undefined ? {} : { authProvider: new Login(options.credentials) }),
    ...(options.tls === undefined ? {} : { sslOptions: handshakeOf(options.tls) }),
    pooling: { heartBeatInterval: 5_000, coreConnectionsPerHost: { [cassandra.types.distance.local]: 2 } },
    socketOptions: { connectTimeout: 3_000, readTimeout: timeoutMs, keepAlive: true },
    encoding: { useBigIntAsLong: true, useUndefinedAsUnset: true },
    queryOptions: {
      prepare: true,
      consistency: consistencies.localQuorum,
      serialConsistency: consistencies.localSerial,
    },
    policies: {
      reconnection: new cassandra.policies.reconnection.ExponentialReconnectionPolicy(100, 5_000, false),
    },
  })
  return withSteadyControl(client)
}

/** The driver asks it for each connection. */
class Login extends cassandra.auth.PlainTextAuthProvider {
  readonly #credentials: () => { user: string; password: string }

  constructor(credentials: () => { user: string; password: string }) {
    super('', '')
    this.#credentials = credentials
  }

  override newAuthenticator(...asked: Parameters<cassandra.auth.AuthProvider['newAuthenticator']>) {
    const { user, password } = this.#credentials()
    return new cassandra.auth.PlainTextAuthProvider(user, password).newAuthenticator(...asked)
  }
}

/**
 * The driver copies these options for each connection, and the certificates may have changed by
 * then. The driver checks the name itself: nodes are called by their addresses.
 */
function handshakeOf(tls: Pick<TlsContext, 'secureContext'>) {
  return {
    rejectUnauthorized: true,
    get secureContext() {
      return tls.secureContext
    },
  }
}
