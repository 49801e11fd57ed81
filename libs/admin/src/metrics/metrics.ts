import { readdir, stat } from 'node:fs/promises'
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

/**
 * Default figures that visit every handle of the process, in the event loop, on each scrape: 8,000
 * connections took 21 ms, and 1 ms without them. `holdfast_connections` counts connections.
 */
const walking = [
  ...['nodejs_active_handles', 'nodejs_active_resources', 'nodejs_active_requests'].flatMap((name) => [
    name,
    `${name}_total`,
  ]),
  'process_open_fds',
]

/** The same figure as the default one, which reads a directory with an entry for each. */
function openFiles(registry: Registry): void {
  if (process.platform !== 'linux') return
  new Gauge({
    name: 'process_open_fds',
    help: 'Number of open file descriptors.',
    registers: [registry],
    async collect() {
      // Since Linux 6.2 the size of this directory is the number of its entries; before it is 0.
      const { size } = await stat(ownFiles)
      this.set(size > 0 ? size : (await readdir(ownFiles)).length)
    },
  })
}

const ownFiles = '/proc/self/fd'

/**
 * A registry of one process (never the global one): Node's own figures, and the process' name and
 * version.
 */
export function processMetrics(details: {
  version: string
  commit: string
  role: string
  region: string
}): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  for (const name of walking) registry.removeSingleMetric(name)
  openFiles(registry)
  new Gauge({
    name: 'holdfast_build_info',
    help: 'Constant 1, with version, commit, role and region as labels.',
    labelNames: ['version', 'commit', 'role', 'region'],
    registers: [registry],
  }).set(details, 1)
  return registry
}

/** The clock's metric of the embedded service. */
export function clockGuardMetric(registry: Registry, offsetMs: () => number): void {
  new Gauge({
    name: 'holdfast_clock_jump_seconds',
    help: 'How far the wall clock is ahead of the newest time that the service recorded; 0 or little in normal operation. Beyond HOLDFAST_CLOCK_JUMP_SECONDS, or 2 h behind, nothing expires.',
    registers: [registry],
    collect() {
      this.set(offsetMs() / 1000)
    },
  })
}

/** The clock's metric of a process in a cluster. */
export function clockMetric(registry: Registry, { offsetMs }: { offsetMs: () => number }): void {
  new Gauge({
    name: 'holdfast_clock_offset_seconds',
    help: 'How far the wall clock is ahead of the median of all members; more than 2 s either way: no expiry fires here.',
    registers: [registry],
    collect() {
      this.set(offsetMs() / 1000)
    },
  })
}
