/**
 * File descriptors, divided before any is opened. A process without free descriptors can neither
 * accept nor write. So each part has its own share: the stores, the admin host, and last the
 * connections of users, the only part that clients control.
 */
import { readFileSync } from 'node:fs'
import { StartFault } from './start-fault.ts'

export interface DescriptorNeeds {
  /** Hosts that users reach. */
  publicHosts: number
  /** Holds a metadata store or a chunk store. */
  stores: boolean
  /** Communicates with other processes of a cluster. */
  cluster: boolean
  /** As set by the operator; undefined: derived from the limit. */
  connectionsMax: number | undefined
  connectionsPerNetworkMax: number | undefined
  /** No limit per network. */
  networksUnlimited: boolean
}

export interface DescriptorBudget {
  /** Files of extents that are open at once: two descriptors each. */
  openExtentsMax: number
  /** Connections of each public host. */
  connections: { max: number; perNetworkMax: number }
  /** Connections of the admin host: its own part, also when all others are full. */
  adminConnections: { max: number; perNetworkMax: number }
  /** Connections of the listeners between nodes. 0 where nothing is served to other nodes. */
  peerConnections: { control: number; bytes: number }
  /**
   * The warning that users get few connections because of the limit; undefined when they get
   * enough.
   */
  warning: string | undefined
}

/**
 * Node itself, its threads and timers, logs, locks, listeners, mails, DNS; and some spare. 54 to 57
 * are in use with stores.
 */
const processDescriptors = 64
/**
 * LevelDB keeps at most 990 tables open and maps up to 1,000 of them, without descriptors; its log,
 * lists and lock, and a compaction use some.
 */
const metadataDescriptors = 24
/**
 * RocksDB's log, lists and tables: with 8 to 64 MiB of rows per table, enough for a catalogue of
 * some GiB.
 */
const catalogueDescriptors = 64
/** A probe, a scraper and an operator, with kept-alive connections. */
const adminDescriptors = 32
/** NATS, Cassandra, and streams to some dozens of storage nodes. */
const clusterDescriptors = 128
const extents = { least: 8, most: 512, descriptors: 2, share: 1 / 4 }
/**
 * Connections from other nodes: one call connection per process, and as many byte connections as
 * running streams. They share the rest with users.
 */
const peers = { least: { control: 16, bytes: 48 }, most: { control: 1_024, bytes: 4_096 }, share: 1 / 4 }
/** With fewer a host is useless. */
const connectionsLeast = 16
/**
 * A browser opens six, a sync client four to eight: some ten users at a time. Below it a start
 * warns.
 */
const connectionsComfortable = 64
/** About 20 KB each while idle. */
const connectionsMost = 4_096
const networkShare = 1 / 4
const networkMost = 1_024

/**
 * @param limit descriptors that the process may have
 * @throws StartFault TOO_FEW_DESCRIPTORS naming the needed number
 */
export function divideDescriptors(limit: number, needs: DescriptorNeeds): DescriptorBudget {
  const { publicHosts, connectionsMax } = needs
  const fixed =
    processDescriptors +
    adminDescriptors +
    (needs.stores ? metadataDescriptors + catalogueDescriptors : 0) +
    (needs.cluster ? clusterDescriptors : 0)
  const extentsLeast = needs.stores ? extents.least * extents.descriptors : 0
  const servesPeers = needs.stores && needs.cluster
  const peersLeast = servesPeers ? peers.least.control + peers.least.bytes : 0
  const needed = fixed + extentsLeast + peersLeast + (connectionsMax ?? connectionsLeast * publicHosts)
  if (limit < needed) throw tooFew(limit, needed, connectionsMax)
  const shared = limit - needed
  const openExtentsMax = needs.stores
    ? Math.min(extents.most, extents.least + Math.floor((shared * extents.share) / extents.descriptors))
    : 0
  const peerConnections = servesPeers ? peerShare(shared * peers.share) : { control: 0, bytes: 0 }
  const forPeers = peerConnections.control + peerConnections.bytes
  const left = limit - fixed - openExtentsMax * extents.descriptors - forPeers
  const all = connectionsMax ?? Math.min(left, connectionsMost * publicHosts)
  const max = publicHosts === 0 ? 0 : Math.max(1, Math.floor(all / publicHosts))
  const byShare = Math.min(networkMost, Math.max(connectionsLeast, Math.floor(max * networkShare)))
  const isScarce = publicHosts > 0 && connectionsMax === undefined && max < connectionsComfortable
  return {
    openExtentsMax,
    connections: {
      max,
      perNetworkMax: needs.networksUnlimited
        ? Number.POSITIVE_INFINITY
        : Math.min(max, needs.connectionsPerNetworkMax ?? byShare),
    },
    adminConnections: { max: adminDescriptors, perNetworkMax: Number.POSITIVE_INFINITY },
    peerConnections,
    warning: isScarce
      ? `the process may open ${limit} files, which leaves ${max} connections for each host: ${advice(recommended)}`
      : undefined,
  }
}

/** @param more descriptors above the minimum */
function peerShare(more: number): { control: number; bytes: number } {
  const { least, most } = peers
  const part = (kind: 'control' | 'bytes') =>
    Math.min(most[kind], least[kind] + Math.floor((more * least[kind]) / (least.control + least.bytes)))
  return { control: part('control'), bytes: part('bytes') }
}

function tooFew(limit: number, needed: number, asked: number | undefined): StartFault {
  const cause = asked === undefined ? '' : ` with HOLDFAST_CONNECTIONS_MAX=${asked}`
  return new StartFault(
    'TOO_FEW_DESCRIPTORS',
    `the process may open ${limit} files, but takes ${needed} or more${cause}: ${advice(Math.max(recommended, needed))}`,
  )
}

function advice(files: number): string {
  return (
    `raise the limit (\`ulimit -n ${files}\` in a shell, \`LimitNOFILE=${files}\` of a systemd unit, ` +
    `\`--ulimit nofile=${files}\` of a container)`
  )
}

/** Advised even where less would do. */
const recommended = 4_096

/** Where no limit can be read: the defaults of Linux and macOS. */
const unknownLimit = 1_024

/**
 * How many descriptors this process may have: the soft limit, which Node has raised as far as
 * possible.
 */
export function descriptorLimit(): number {
  return limitOfProc() ?? limitOfReport() ?? unknownLimit
}

function limitOfProc(): number | undefined {
  try {
    return limitIn(readFileSync('/proc/self/limits', 'utf8'))
  } catch {
    return undefined // not Linux
  }
}

/** As in `/proc/<pid>/limits`. */
export function limitIn(limits: string): number | undefined {
  const soft = /^Max open files\s+(\d+|unlimited)/m.exec(limits)?.[1]
  if (soft === undefined) return undefined
  return soft === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(soft)
}

/** Node's own report contains it on every system, and takes longer. */
function limitOfReport(): number | undefined {
  // Without it the report resolves the names of all peers.
  Object.assign(process.report, { excludeNetwork: true })
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } }
  const soft = userLimits?.open_files?.soft
  if (soft === 'unlimited') return Number.MAX_SAFE_INTEGER
  return typeof soft === 'number' ? soft : undefined
}
