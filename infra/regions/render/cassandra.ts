/** Cassandra: a data centre a region, racks of the hosts, login, TLS to peers and clients. */
import { stringify } from 'yaml'
import { hostsWith, type Plan, type PlannedHost, places } from '../plan.ts'
import { serverPorts } from '../roles.ts'

const seedsPerRegion = 2

export function cassandraYaml({ deployment, regions }: Plan, host: PlannedHost): string {
  const seeds = regions.flatMap(({ hosts }) =>
    hostsWith(hosts, 'cassandra')
      .slice(0, seedsPerRegion)
      .map(({ internal }) => `${internal}:${serverPorts.cassandra.storage}`),
  )
  const tls = {
    ssl_context_factory: { class_name: 'org.apache.cassandra.security.PEMBasedSslContextFactory' },
    // Key and certificates in one file.
    keystore: `${places.tls}/cassandra.pem`,
    truststore: `${places.tls}/ca.pem`,
  }
  return stringify(
    {
      cluster_name: deployment.name,
      num_tokens: 16,
      allocate_tokens_for_local_replication_factor: deployment.replicas,
      partitioner: 'org.apache.cassandra.dht.Murmur3Partitioner',
      endpoint_snitch: 'GossipingPropertyFileSnitch',
      seed_provider: [
        {
          class_name: 'org.apache.cassandra.locator.SimpleSeedProvider',
          parameters: [{ seeds: seeds.join(',') }],
        },
      ],
      listen_address: host.internal,
      rpc_address: host.internal,
      storage_port: serverPorts.cassandra.storage,
      native_transport_port: serverPorts.cassandra.client,
      data_file_directories: ['/var/lib/cassandra/data'],
      commitlog_directory: '/var/lib/cassandra/commitlog',
      hints_directory: '/var/lib/cassandra/hints',
      saved_caches_directory: '/var/lib/cassandra/saved_caches',
      cdc_raw_directory: '/var/lib/cassandra/cdc_raw',
      authenticator: { class_name: 'org.apache.cassandra.auth.PasswordAuthenticator' },
      authorizer: { class_name: 'org.apache.cassandra.auth.CassandraAuthorizer' },
      role_manager: { class_name: 'org.apache.cassandra.auth.CassandraRoleManager' },
      server_encryption_options: {
        internode_encryption: 'all',
        optional: false,
        require_client_auth: true,
        ...tls,
      },
      client_encryption_options: { enabled: true, optional: false, require_client_auth: true, ...tls },
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
    },
    { lineWidth: 0, aliasDuplicateObjects: false },
  )
}

export function cassandraRack({ region, rack }: PlannedHost): string {
  return `dc=${region}\nrack=${rack}\n`
}
