/** A cluster whose processes all run in this one, over a bus and journals in memory. */

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import http from 'node:http'
import https from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startActorHost } from '@holdfast/actor-host'
import { startApi } from '@holdfast/api/start'
import type { ClusterStart, ServerConnector } from '@holdfast/cluster'
import { memoryServers } from '@holdfast/cluster/testing'
import { clusterSettings, describeSettings, readClusterConfig, settings } from '@holdfast/config'
import type { WholeStore } from '@holdfast/journal'
import { type Clock, systemClock } from '@holdfast/kernel'
import { startStorageNode } from '@holdfast/storage-node'
import { Authority, clusterNames } from '@holdfast/trust'
import { startUpload } from '@holdfast/upload/start'
import type { Logger } from 'pino'
import type { Test } from 'tap'
import { recorded } from '../support/settings-read.ts'
import { until } from '../support/until.ts'

export interface RunningProcess {
  addresses: Record<string, string>
  close(): Promise<void>
}

export interface MemoryCluster {
  nodes: RunningProcess[]
  host: RunningProcess
  upload: RunningProcess
  api: RunningProcess
  /** All of them. */
  running: RunningProcess[]
  /** Names of the settings that each process read. */
  settingsRead: ReadonlyMap<string, ReadonlySet<string>>
  /** Members of the messages that are JSON: `collect.* asks .graceMs number`. */
  messages: ReadonlySet<string>
}

export interface MemoryClusterOptions {
  logOf: (process: string) => Logger
  scanner: string
  /** Settings of all processes. */
  settings?: Record<string, string> | undefined
  /** Default: the clock of the machine. */
  clockOf?: (process: string) => Clock
}

const region = 'eu-par'
const nodeNames = ['node1', 'node2', 'node3']

function starterOf(
  directory: string,
  connect: ServerConnector,
  {
    logOf,
    clockOf = () => systemClock,
    settings: common = {},
  }: Pick<MemoryClusterOptions, 'logOf' | 'clockOf' | 'settings'>,
  settingsRead: Map<string, Set<string>>,
) {
  return (name: string, start: (options: ClusterStart) => Promise<RunningProcess>, more: object = {}) => {
    const env = {
      HOLDFAST_NODE_NAME: name,
      HOLDFAST_DATA_DIR: join(directory, name),
      HOLDFAST_CLUSTER_SECRET: 'a-secret-of-this-test',
      HOLDFAST_RATE_LIMITS: 'off',
      HOLDFAST_OPEN_LISTING: 'on',
      HOLDFAST_CONNECTIONS_MAX: '120',
      HOLDFAST_TLS_CA: join(directory, 'certs/machine/ca.pem'),
      HOLDFAST_TLS_CERT: join(directory, 'certs/machine/node.pem'),
      HOLDFAST_TLS_KEY: join(directory, 'certs/machine/node.key'),
      ...Object.fromEntries(
        ['API', 'UPLOAD', 'DOWNLOAD', 'ADMIN', 'CONTROL', 'BYTES'].map((port) => [
          `HOLDFAST_${port}_PORT`,
          '0',
        ]),
      ),
      ...common,
      ...more,
    }
    const { config, secrets } = readClusterConfig(env, {
      readSecret: (path) => readFileSync(path, 'utf8'),
    })
    const { config: watched, read } = recorded(config)
    settingsRead.set(name, read)
    return start({
      config: watched,
      secrets,
      settings: describeSettings(env, { ...settings, ...clusterSettings }),
      log: logOf(name),
      clock: clockOf(name),
      connect,
    })
  }
}

async function isReady({ addresses: { admin = '' } }: RunningProcess): Promise<boolean> {
  const asked = admin.startsWith('https:')
    ? https.get(`${admin}/readyz`, { rejectUnauthorized: false })
    : http.get(`${admin}/readyz`)
  const [answer] = await once(asked, 'response')
  answer.resume()
  return answer.statusCode === 200
}

/** Servers and a directory, without any process yet; the test ends what it starts. */
export async function newMemoryCluster(t: Test, options: Omit<MemoryClusterOptions, 'scanner'>) {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-'))
  const authority = await Authority.create(join(directory, 'certs'), { name: 'test', days: 2 })
  const [{ frontend, proxy }, host] = [clusterNames, 'machine']
  await authority.issue({ host, names: ['127.0.0.1', frontend] }, { days: 2 })
  await authority.issue({ host, names: [proxy] }, { days: 2, kind: 'proxy' })
  const settingsRead = new Map<string, Set<string>>()
  const messages = new Set<string>()
  const servers = memoryServers([region])
  const start = starterOf(directory, overheard(servers, messages), options, settingsRead)
  const running: RunningProcess[] = []
  const stop = async () => {
    for (const one of running.splice(0).toReversed()) await one.close()
  }
  t.teardown(async () => {
    await stop()
    await rm(directory, { recursive: true })
  })
  const started = async (one: Promise<RunningProcess>) => {
    running.push(await one)
    return running.at(-1) as RunningProcess
  }
  const startNodes = () => Promise.all(nodeNames.map((name) => started(start(name, startStorageNode))))
  return {
    directory,
    authority,
    running,
    settingsRead,
    messages,
    /** What all regions keep. */
    async sharedRows(): Promise<WholeStore> {
      const { openWholeKeyspaces } = await servers({ config: { region } } as Parameters<ServerConnector>[0])
      return openWholeKeyspaces({ regions: [region], founders: [region] }).lookups(region)
    },
    /** Ends all processes. */
    stop,
    startNodes,
    /** Resolves when every process is ready. */
    async startAll(scanner: string) {
      const nodes = await startNodes()
      const host = await started(start('host', startActorHost))
      const upload = await started(start('upload', startUpload, { HOLDFAST_SCANNER: scanner }))
      const api = await started(
        start('api', startApi, {
          HOLDFAST_PUBLIC_UPLOAD_URL: upload.addresses.upload,
          HOLDFAST_PUBLIC_DOWNLOAD_URL: upload.addresses.download,
        }),
      )
      await until(async () => (await Promise.all(running.map(isReady))).every(Boolean))
      return { nodes, host, upload, api }
    },
  }
}

/** Resolves when every process is ready; the test ends them. */
export async function startMemoryCluster(
  t: Test,
  { scanner, ...more }: MemoryClusterOptions,
): Promise<MemoryCluster> {
  const { running, settingsRead, messages, startAll } = await newMemoryCluster(t, more)
  return { ...(await startAll(scanner)), running, settingsRead, messages }
}

/** Notes the members of each JSON message of any process. */
function overheard(connect: ServerConnector, messages: Set<string>): ServerConnector {
  return async (options) => {
    const servers = await connect(options)
    const { bus } = servers
    const note = (subject: string, what: string, message: Uint8Array) => {
      const of = subject.replace(/\.(?:[^.]*\d|host|upload|api|eu-par)$/, '.*')
      for (const member of membersOf(parsed(message))) messages.add(`${of} ${what} ${member}`)
    }
    const [request, publish] = [bus.request.bind(bus), bus.publish.bind(bus)]
    bus.request = async (subject, message, wait) => {
      note(subject, 'asks', message)
      const answer = await request(subject, message, wait)
      note(subject, 'answers', answer)
      return answer
    }
    bus.publish = (subject, message) => {
      note(subject, 'publishes', message)
      publish(subject, message)
    }
    return servers
  }
}

/** Undefined: it is no object or list in JSON, as most messages. */
function parsed(message: Uint8Array): object | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(message).toString())
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    return undefined
  }
}

/** Paths and types of a value's members; names that are no words of ours stand for any. */
function* membersOf(value: unknown, path = ''): Generator<string> {
  if (Array.isArray(value)) for (const item of value) yield* membersOf(item, `${path}[]`)
  else if (typeof value === 'object' && value !== null) {
    if (Object.keys(value).length === 0) yield `${path} {}`
    for (const [name, member] of Object.entries(value))
      yield* membersOf(member, `${path}.${/^[a-z][A-Za-z]*$/.test(name) ? name : '*'}`)
  } else if (value !== undefined) yield `${path} ${value === null ? 'null' : typeof value}`
}

export async function dataOf(asked: Promise<Response>): Promise<Record<string, unknown>> {
  const answer = (await (await asked).json()) as { status: string; data: Record<string, unknown> }
  if (answer.status !== 'ok') throw new Error(answer.status)
  return answer.data
}
