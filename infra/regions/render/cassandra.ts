/** Cassandra: a data centre a region, racks of the hosts, login, TLS to peers and clients. */
import { stringify } from 'yaml'
import { hostsWith, type Plan, type PlannedHost } from '../plan.ts'

export const cassandraYamlPath = '/etc/cassandra/cassandra.yaml'

const seedsPerRegion = 2

/**
 * How long a node may need to end one interrupted transaction, ms, before another node joins or
 * leaves. It does so in the threads that also write a file for each range and table (as many as it
 * has cores), behind hundreds of these files. With Cassandra's own minute a node with few cores
 * gives up, and begins again with all files.
 */
const paxosRepairMs = 600_000

/** Words after the name of the program. */
export const cassandraWords = ['-f', `-Dcassandra.paxos_repair_retry_timeout_millis=${paxosRepairMs}`]

/** A node, as its configuration needs it. */
export interface CassandraNode {
  cluster: string
  /** Addresses with ports. */
  seeds: string[]
  /** Where clients and peers find it. */
  address: string
  /** Where it listens for peers, when they find something else at its address. */
  listen: string
  ports: { client: number; storage: number }
  /** The folder of its data. */
  data: string
  replicas: number
  /** Clients log in. */
  login: boolean
  /** Towards clients, and towards other nodes. */
  tls: { clients: CassandraTls; nodes: CassandraTls } | undefined
}

/** Files of the authority that is trusted, and of the node's key and certificate in one. */
export interface CassandraTls {
  authority: string
  own: string
}

/** The nodes that others ask for the cluster, of all regions. */
export function seedsOf({ regions }: Plan): PlannedHost[] {
  return regions.flatMap(({ hosts }) => hostsWith(hosts, 'cassandra').slice(0, seedsPerRegion))
}

/** Where no node of its region has data, this one starts alone. */
export function isFirstNode({ regions }: Plan, { name, region }: PlannedHost): boolean {
  const hosts = regions.find(({ code }) => code === region)?.hosts ?? []
  return hostsWith(hosts, 'cassandra')[0]?.name === name
}

/**
 * @param options.seed whether it names itself among the seeds. Such a node gets no rows of others
 *   when it joins, and only such a node starts while no other one runs: so each of `seedsOf` should
 *   do it, but not before it has joined. By default the first one of a region does.
 */
export function cassandraYaml(
  plan: Plan,
  host: PlannedHost,
  { seed = isFirstNode(plan, host) }: { seed?: boolean } = {},
): string {
  const { deployment, platform } = plan
  const { cassandra: ports } = platform.serverPorts
  const node: CassandraNode = {
    cluster: deployment.name,
    seeds: seedsOf(plan)
      .filter(({ name }) => seed || name !== host.name)
      .map(({ internal }) => `${internal}:${ports.storage}`),
    address: host.internal,
    listen: platform.listenOf(host),
    ports,
    data: platform.cassandraData(host),
    replicas: deployment.replicas,
    login: platform.cassandraLogin,
    tls:
      platform.tls === undefined
        ? undefined
        : {
            clients: { authority: `${platform.tls}/ca.pem`, own: `${platform.tls}/cassandra.pem` },
            nodes: { authority: `${platform.tls}/cassandra-ca.pem`, own: `${platform.tls}/internode.pem` },
          },
  }
  return cassandraText({ ...cassandraValues(node), ...platform.cassandra })
}

/** @param values those that are undefined are left to Cassandra */
export function cassandraText(values: Readonly<Record<string, unknown>>): string {
  return stringify(values, { lineWidth: 0, aliasDuplicateObjects: false })
}

/** The values of `cassandra.yaml`. */
export function cassandraValues(node: CassandraNode): Record<string, unknown> {
  const auth = (name: string) => ({ class_name: `org.apache.cassandra.auth.${name}` })
  return {
    cluster_name: node.cluster,
    num_tokens: 16,
    allocate_tokens_for_local_replication_factor: node.replicas,
    partitioner: 'org.apache.cassandra.dht.Murmur3Partitioner',
    endpoint_snitch: 'GossipingPropertyFileSnitch',
    seed_provider: [
      {
        class_name: 'org.apache.cassandra.locator.SimpleSeedProvider',
        parameters: [{ seeds: node.seeds.join(',') }],
      },
    ],
    listen_address: node.listen,
    broadcast_address: node.listen === node.address ? undefined : node.address,
    rpc_address: node.address,
    storage_port: node.ports.storage,
    native_transport_port: node.ports.client,
    data_file_directories: [`${node.data}/data`],
    commitlog_directory: `${node.data}/commitlog`,
    hints_directory: `${node.data}/hints`,
    saved_caches_directory: `${node.data}/saved_caches`,
    cdc_raw_directory: `${node.data}/cdc_raw`,
    authenticator: auth(node.login ? 'PasswordAuthenticator' : 'AllowAllAuthenticator'),
    authorizer: auth(node.login ? 'CassandraAuthorizer' : 'AllowAllAuthorizer'),
    role_manager: auth('CassandraRoleManager'),
    ...(node.tls === undefined ? {} : encryption(node.tls)),
    // A write that is acknowledged by one replica must outlive a loss of power there.
    commitlog_sync: 'batch',
    disk_failure_policy: 'die',
    commit_failure_policy: 'die',
    paxos_variant: 'v2',
    memtable: {
      configurations: { trie: { class_name: 'TrieMemtable' }, default: { inherits: 'trie' } },
    },
    memtable_allocation_type: 'offheap_objects',
    sstable: { selected_format: 'bti' },
    default_compaction: {
      class_name: 'UnifiedCompactionStrategy',
      parameters: { scaling_parameters: 'T4', target_sstable_size: '1GiB', base_shard_count: 4 },
    },
    storage_compatibility_mode: 'NONE',
    auto_snapshot: false,
    incremental_backups: false,
    cdc_enabled: false,
    user_defined_functions_enabled: false,
  }
}

/**
 * A peer that shows a trusted certificate may read and write every row, without a login. So nodes
 * trust an authority of their own: certificates of processes and proxies do not count.
 */
function encryption({ clients, nodes }: NonNullable<CassandraNode['tls']>): Record<string, unknown> {
  const files = ({ authority, own }: CassandraTls) => ({
    require_client_auth: true,
    ssl_context_factory: { class_name: 'org.apache.cassandra.security.PEMBasedSslContextFactory' },
    keystore: own,
    truststore: authority,
  })
  return {
    server_encryption_options: { internode_encryption: 'all', optional: false, ...files(nodes) },
    client_encryption_options: { enabled: true, optional: false, ...files(clients) },
  }
}

export function cassandraRack({ region, rack }: PlannedHost): string {
  return `dc=${region}\nrack=${rack}\n`
}
