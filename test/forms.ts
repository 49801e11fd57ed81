/**
 * What `npm test` tries, and what it leaves to the long run. Both are decided here.
 *
 * A file belongs to the daily run unless it is slow. A slow suite has two sizes: `npm test` takes
 * the short one, the long run the full one. A file without a useful short form is in the long run
 * alone.
 */

export type Form = 'short' | 'full'

/** The runner sets it for the test files. A file that is started alone is short. */
export const formVariable = 'TEST_FORM'
export const longRun = 'npm run test:long -- --ci'

type Size = Record<Form, number> & { file: string }

const sizes = {
  /** Crash states of the chunk store, 0.06 s of CPU each. */
  crashStates: { short: 400, full: 600, file: 'libs/chunk-store/test/crash-states.test.ts' },
  /** Faults that the search of crash states finds within this many. */
  plantedStates: { short: 400, full: 2_000, file: 'libs/chunk-store/test/planted-faults.test.ts' },
  /** Rounds of `kill -9` of a process with a chunk store. */
  storeKills: { short: 2, full: 5, file: 'libs/chunk-store/test/process.test.ts' },
  /** Ways to fill a disk and to free a part of it, up to 20 s each. The first one is daily. */
  fullDisks: { short: 1, full: 6, file: 'libs/chunk-store/test/disk-full.test.ts' },
  /** Random sequences of commands against the tree and its model. */
  treeRuns: { short: 200, full: 800, file: 'libs/content-tree/test/model.test.ts' },
  /** Contents of the account whose written bytes are counted. */
  writtenContents: { short: 50_000, full: 100_000, file: 'libs/actor-runtime/test/amplification.test.ts' },
  /** References that are lost, and as many without an owner. */
  damagedReferences: { short: 100, full: 1_000, file: 'apps/ctl/test/reconcile.test.ts' },
  /** Random histories of an account whose checkpoints write what changed. */
  partRuns: { short: 15, full: 40, file: 'libs/content-tree/test/parts.test.ts' },
  /** 4: each kind of change is made to each fourth content of a busy account. */
  partEveryNth: { short: 12, full: 4, file: 'libs/content-tree/test/parts.test.ts' },
  /** Catalogues of which bits are flipped: RocksDB, then LevelDB. */
  rotEngines: { short: 1, full: 2, file: 'libs/chunk-store/test/rot.test.ts' },
  /** Random uses of idempotency keys. */
  keyRuns: { short: 300, full: 2_000, file: 'libs/content-tree/test/keys.test.ts' },
  /** Rounds of `kill -9` of the whole service under load. */
  crashRounds: { short: 3, full: 6, file: 'test/crash.test.ts' },
  /**
   * Seeds of the simulation; seeds that run twice and must be the same; threads that keep the
   * machine busy meanwhile; planted faults to find.
   */
  simSeeds: { short: 5, full: 30, file: 'test/sim.test.ts' },
  simTwice: { short: 1, full: 2, file: 'test/sim.test.ts' },
  simBusy: { short: 0, full: 2, file: 'test/sim.test.ts' },
  simPlanted: { short: 0, full: 1_000, file: 'test/sim.test.ts' },
  /** 6: each place of a request gets one of six hostile values. */
  hostileEveryNth: { short: 6, full: 1, file: 'test/hostile-values.test.ts' },
} satisfies Record<string, Size>

/** In this run's form. */
export function sizeOf(suite: keyof typeof sizes): number {
  return sizes[suite][process.env[formVariable] === 'full' ? 'full' : 'short']
}

/** They are in both runs. */
export const sizedFiles: readonly string[] = [...new Set(Object.values(sizes).map(({ file }) => file))]

/** Files of the long run alone, each with its reason. */
export const longFiles: Readonly<Record<string, string>> = {
  'apps/standalone/test/disk-filled.test.ts':
    'a disk whose last byte is taken again and again; disk-full.test.ts is daily',
  'apps/standalone/test/disk-full.test.ts':
    'a full disk under the whole service; those of libs/chunk-store and libs/journal-level are daily',
  'libs/actor-runtime/test/queues.test.ts': '20,000 activations in Cassandra show a growth, not a rule',
  'libs/cluster/test/costs.test.ts':
    'counts statements sent to a real Cassandra: a growth of costs, not a fault',
  'libs/journal-cassandra/test/logins.test.ts':
    'two Cassandras that ask for a login, for commands that operators use once',
  'libs/journal-cassandra/test/backup.test.ts': 'two Cassandras, cut for longer than their hints last',
  'libs/journal-cassandra/test/data-centres.test.ts':
    'two Cassandras, one of them added to the data of the other',
  'test/abuse-attacks.test.ts': 'latencies beside attacks need the machine for 70 s',
  'test/alerts-sent.test.ts': 'a real Prometheus and a real alertmanager; the rules are in observe.test.ts',
  'test/cluster/backup.test.ts': 'a cluster of its own; apps/standalone/test/backup.test.ts is daily',
  'test/cluster/logs.test.ts': 'a cluster of its own, for ids in lines of the log',
  'test/cluster/tracing.test.ts': 'a cluster of its own; apps/standalone/test/tracing.test.ts is daily',
  'test/proxies.test.ts': 'the acceptance suite through nginx and Caddy: minutes',
  'test/pypi-programs.test.ts': 'makes four environments of Python for the clients',
  'test/clients/clients.test.ts': 'installs nine clients of other people and plays them',
  'test/cluster/faults.test.ts': '17 faults of 8 to 24 s; two of them are in acceptance.test.ts',
  'test/cluster/growth.test.ts': 'two clusters that get further regions: minutes',
  'test/cluster/supervising.test.ts':
    'starts of a cluster that are stopped; a whole start is in acceptance.test.ts',
  'test/cluster/operator.test.ts': 'a region is lost, nodes are emptied: minutes of a cluster of its own',
}

/** Files that sometimes fail without a fault of the service, each with its cause. */
export const unsteady: Readonly<Record<string, string>> = {}
