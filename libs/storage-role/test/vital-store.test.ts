/** A storage role whose catalogue accepts no more writes, in a cluster without other processes. */
import { execFileSync } from 'node:child_process'
import { Readiness } from '@holdfast/admin'
import { MemoryBus } from '@holdfast/bus'
import { type ClusterPart, GroupRows, NodeAdminStates, openTrust, StoragePeers } from '@holdfast/cluster'
import { readClusterConfig } from '@holdfast/config'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t from 'tap'
import { StorageRole } from '../src/index.ts'

const log = pino({ level: 'silent' })
process.on('SIGXFSZ', () => {}) // otherwise a write past the limit would end the process

function limitFiles(bytes: number | 'unlimited'): void {
  execFileSync('prlimit', ['--pid', String(process.pid), `--fsize=${bytes}:`])
}

t.test('a storage node whose store does not recover within a minute is not alive', async (t) => {
  const { config, secrets } = readClusterConfig(
    {
      HOLDFAST_DATA_DIR: t.testdir(),
      HOLDFAST_NODE_NAME: 'node-1',
      HOLDFAST_CLUSTER_SECRET: 'a-secret-of-this-test',
      HOLDFAST_CONTROL_PORT: '0',
      HOLDFAST_BYTES_PORT: '0',
      HOLDFAST_RESERVE: '1MiB',
    },
    { readSecret: () => '' },
  )
  let nowMs = Date.UTC(2030, 0, 1)
  const clock = { now: () => nowMs, monotonic: () => nowMs }
  const bus = new MemoryBus()
  const lookups = new MemoryLookupStore()
  const onFault = () => {}
  const membership = { beats: () => [] } as unknown as ConstructorParameters<
    typeof StoragePeers
  >[0]['membership']
  const peers = new StoragePeers({ membership, secret: () => secrets.clusterSecret, tls: undefined, clock })
  const groups = new GroupRows({ lookups, bus, regions: config.regions, onFault, onGroup: undefined })
  const nodes = new NodeAdminStates({ lookups, bus, onFault })
  const readiness = new Readiness({}, { clock })
  const metrics = new Registry()
  const role = await StorageRole.open({
    config,
    descriptors: { openExtentsMax: 64, peerConnections: { control: 16, bytes: 48 } },
    secrets,
    log,
    clock,
  })
  const trust = openTrust(config, log)
  const held = { bus, lookups, peers, groups, nodes, readiness }
  const cluster = { config, secrets, trust, clock, log, metrics, ...held }
  await role.join(cluster as unknown as ClusterPart)
  await using opened = new AsyncDisposableStack() // closed before the directory is removed
  opened.defer(async () => {
    limitFiles('unlimited')
    groups.close()
    nodes.close()
    await role.stop()
    await role.close()
  })
  const note = (version: number) =>
    role.learn({ number: 1, version, region: 'eu-par', members: ['node-1'], remote: [], writable: true })
  await note(1)
  t.equal(readiness.hopeless, undefined)

  limitFiles(1)
  await t.rejects(note(2))
  nowMs += 59_999
  t.equal(readiness.hopeless, undefined, 'it may recover')
  nowMs += 1
  t.match(readiness.hopeless, /^store fails since 60 s or more: /)
  t.equal(readiness.endReason, undefined, 'it keeps trying, and reads work')

  limitFiles('unlimited')
  await note(3)
  t.equal(readiness.hopeless, undefined)
})
