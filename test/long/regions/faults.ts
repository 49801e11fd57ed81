/** Real faults of a cluster in namespaces, and the alerts that are for them. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { DeployedRegions } from './deployed.ts'
import { receiverUnit } from './receiver.ts'

export interface ClusterFault {
  name: string
  /** Each of them has to fire. */
  alerts: readonly string[]
  /** May fire, too. */
  besides?: readonly string[]
  times: { times: number; windowSeconds: number }
  /** @returns how it ends */
  make: (deployed: DeployedRegions) => Promise<() => Promise<void>>
}

const short = { times: 20, windowSeconds: 20 }
/** Prometheus sends an alert that continues to fire once a minute. */
const resent = { times: 20, windowSeconds: 90 }
/** Consequences for users of a region that lacks something. */
const users = [
  ...['HoldfastErrorsFast', 'HoldfastErrorsSlow', 'HoldfastSlowFast', 'HoldfastSlowSlow'],
  ...['HoldfastNotReady', 'HoldfastUnknownOutcomes', 'HoldfastBackupLag'],
]
const par = ['par1', 'par2', 'par3']
const nyc = ['nyc1', 'nyc2', 'nyc3']

/** Hosts with alertmanagers. */
const observers = ['par3', 'nyc3', 'sgp3']
const alertmanager = 'prometheus-alertmanager'

const nodeFiles = ['node.key', 'node.pem']

/** The process that reads certificates of servers does so at its start, and every ten minutes. */
const readsShown = 'systemctl restart holdfast-api-1-par1'

export const clusterFaults: readonly ClusterFault[] = [
  {
    name: 'the proxy of a host stops',
    alerts: ['HoldfastProxyDown'],
    times: short,
    make: (deployed) => stopped(deployed, { hosts: ['par2'], unit: 'caddy' }),
  },
  {
    name: 'the alertmanager of the region stops',
    alerts: ['HoldfastServerDown', 'HoldfastAlertmanagerUnreached'],
    times: resent,
    make: (deployed) => stopped(deployed, { hosts: ['par3'], unit: alertmanager }),
  },
  {
    name: 'every alertmanager stops',
    alerts: ['HoldfastAlertsUnsent'],
    besides: ['HoldfastServerDown', 'HoldfastAlertmanagerUnreached'],
    times: resent,
    make: (deployed) => stopped(deployed, { hosts: observers, unit: alertmanager }),
  },
  {
    name: 'the receiver of alerts is away',
    alerts: ['HoldfastNotificationsFail'],
    times: short,
    make: (deployed) => stopped(deployed, { hosts: ['par3'], unit: receiverUnit }),
  },
  {
    name: 'the certificate of a host ends in ten days',
    alerts: ['HoldfastCertificateEnds'],
    times: { times: 1, windowSeconds: 20 },
    make: (deployed) => certified(deployed, { host: 'par2', days: 10, names: nodeFiles }),
  },
  {
    name: 'the certificate of a host ends tomorrow',
    alerts: ['HoldfastCertificateEnded'],
    besides: ['HoldfastCertificateEnds'],
    times: { times: 1, windowSeconds: 20 },
    make: (deployed) => certified(deployed, { host: 'par2', days: 1, names: nodeFiles }),
  },
  shownCertificate('the certificate between nodes of Cassandra', {
    names: ['internode.pem'],
    read: 'nodetool reloadssl',
  }),
  shownCertificate('the public certificate of a host', {
    names: ['public.key', 'public.pem'],
    read: 'systemctl reload caddy',
  }),
  {
    name: 'the clock of a host is 5 s ahead',
    alerts: ['HoldfastClock'],
    besides: [...users, 'HoldfastRestarts'],
    times: short,
    make: async (deployed) => {
      const unit = 'holdfast-actor-1-par2.service'
      const dropIn = `/etc/systemd/system/${unit}.d`
      const ahead = 'Date.now=(now=>()=>now()+5000)(Date.now)'
      const text = `[Service]\\nEnvironment="NODE_OPTIONS=--import=data:text/javascript,${ahead}"\\n`
      await deployed.sh('par2', `mkdir -p ${dropIn} && printf '${text}' > ${dropIn}/clock.conf`)
      await deployed.sh('par2', `systemctl daemon-reload && systemctl restart ${unit}`)
      return async () => {
        await deployed.sh(
          'par2',
          `rm ${dropIn}/clock.conf && systemctl daemon-reload && systemctl restart ${unit}`,
        )
      }
    },
  },
  {
    name: 'a source of copies is frozen',
    alerts: ['HoldfastReplicationLag'],
    besides: users,
    times: short,
    make: (deployed) => frozen(deployed, { hosts: ['nyc1'], unit: 'holdfast-storage-1-nyc1' }),
  },
  {
    name: 'a storage node of the region stops',
    alerts: ['HoldfastCopiesLack'],
    besides: [...users, 'HoldfastReplicationLag'],
    times: short,
    make: (deployed) => stopped(deployed, { hosts: ['par2'], unit: 'holdfast-storage-1-par2' }),
  },
  {
    name: 'every NATS server of the region stops',
    alerts: ['HoldfastNatsDown'],
    besides: [...users, 'HoldfastReplicationLag'],
    times: short,
    make: (deployed) => stopped(deployed, { hosts: par, unit: 'holdfast-nats' }),
  },
  {
    name: 'one Cassandra of the region stops',
    alerts: ['HoldfastCassandraNodes'],
    besides: users,
    times: short,
    make: (deployed) => stopped(deployed, { hosts: ['par2'], unit: 'holdfast-cassandra' }),
  },
  {
    name: 'every Cassandra of another region stops',
    alerts: ['HoldfastBackupLag'],
    besides: [...users, 'HoldfastCassandraNodes', 'HoldfastReplicationLag'],
    // 100 s: more than twice the lag without a fault.
    times: { times: 6, windowSeconds: 20 },
    make: (deployed) => stopped(deployed, { hosts: nyc, unit: 'holdfast-cassandra' }),
  },
  {
    name: 'two Cassandras freeze, again and again',
    alerts: ['HoldfastUnknownOutcomes'],
    besides: [...users, 'HoldfastCassandraNodes', 'HoldfastReplicationLag'],
    times: short,
    make: async (deployed) => {
      const ends = new AbortController()
      const freeze = async () => {
        while (!ends.signal.aborted) {
          const thaw = await frozen(deployed, { hosts: ['par1', 'par2'], unit: 'holdfast-cassandra' })
          await setTimeout(6_000)
          // The metric counts an outcome only when it is known.
          await thaw()
          await setTimeout(3_000)
        }
      }
      // Its failure is reported when the fault ends.
      const freezing = Promise.allSettled([freeze()])
      return async () => {
        ends.abort()
        const [ended] = await freezing
        if (ended.status === 'rejected') throw ended.reason
      }
    },
  },
]

interface Units {
  hosts: readonly string[]
  unit: string
}

async function stopped(deployed: DeployedRegions, { hosts, unit }: Units): Promise<() => Promise<void>> {
  await Promise.all(hosts.map((host) => deployed.sh(host, `systemctl stop ${unit}`)))
  return async () => {
    await Promise.all(hosts.map((host) => deployed.sh(host, `systemctl start ${unit}`)))
  }
}

async function frozen(deployed: DeployedRegions, { hosts, unit }: Units): Promise<() => Promise<void>> {
  const signal = (name: string) =>
    Promise.all(hosts.map((host) => deployed.sh(host, `systemctl kill --signal=${name} ${unit}`)))
  await signal('STOP')
  return async () => {
    await signal('CONT')
  }
}

/** Of a server: the process that watches it sees what the server shows. */
function shownCertificate(
  what: string,
  { names, read }: { names: readonly string[]; read: string },
): ClusterFault {
  return {
    name: `${what} ends in ten days`,
    alerts: ['HoldfastCertificateEnds'],
    besides: [...users, 'HoldfastRestarts'],
    times: { times: 1, windowSeconds: 20 },
    make: (deployed) =>
      certified(deployed, { host: 'par2', days: 10, names, seen: { par2: read, par1: readsShown } }),
  }
}

interface Certified {
  host: string
  days: number
  names: readonly string[]
  /** Commands on hosts after it. Processes read their own certificates by themselves. */
  seen?: Record<string, string>
}

/** Another certificate for the host. */
async function certified(
  deployed: DeployedRegions,
  { host, days, names, seen = {} }: Certified,
): Promise<() => Promise<void>> {
  const put = async (issued: string) => {
    for (const name of names) {
      const text = readFileSync(join(issued, name)).toString('base64')
      const path = `/etc/holdfast/tls/${name}`
      const write = `base64 -d > ${path}.new && chown --reference=${path} ${path}.new`
      await deployed.sh(
        host,
        `echo ${text} | { ${write} && chmod --reference=${path} ${path}.new && mv ${path}.new ${path}; }`,
      )
    }
    for (const [one, command] of Object.entries(seen)) await deployed.sh(one, command)
  }
  await put(await deployed.issued(host, days))
  return () => put(join(deployed.layout.folder, 'ca', host))
}
