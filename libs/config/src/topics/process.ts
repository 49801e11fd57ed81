/** Where a process keeps its files, which region it is in, how it logs and ends. */
import { resolve } from 'node:path'
import { type RegionCode, regionCodes } from '@holdfast/kernel'
import { type TlsServer, tlsServers, tlsServersForm } from '../network-kinds.ts'
import {
  baseUrl,
  choice,
  integer,
  onOff,
  pattern,
  type Setting,
  seconds,
  text,
  type ValuesOf,
} from '../setting-kinds.ts'

export const processSettings = {
  HOLDFAST_DATA_DIR: text({
    fallback: './data',
    meaning: 'Directory of all data; relative to the working directory of the start. One process at a time.',
  }),
  HOLDFAST_REQUIRE_STORE: onOff({
    fallback: 'off',
    meaning:
      '`on`: a start never makes a new store. Where the data directory has none, as when its disk is not mounted, it ends with 66. Set it after the first start.',
  }),
  HOLDFAST_REGION: choice(regionCodes, {
    fallback: 'eu-par',
    meaning:
      'Home region of accounts that are made here. It is part of their ids, so it never changes for them.',
  }),
  HOLDFAST_DRAIN_SECONDS: seconds({
    fallback: '25',
    min: 0,
    max: 3600,
    meaning:
      'How long running requests may take after SIGTERM; less than the 30 s after which orchestrators kill.',
  }),
  HOLDFAST_LOG_LEVEL: choice(['debug', 'info', 'warn', 'error', 'silent'], {
    fallback: 'warn',
    meaning: 'Least severe log line that is written (JSON lines on stderr); debug shows every request.',
  }),
  HOLDFAST_TRACE_URL: baseUrl({
    meaning:
      'Collector of the traces of requests, like `http://127.0.0.1:4318`: OTLP over HTTP, JSON, at `<this>/v1/traces`. Without it nothing is traced.',
  }),
  HOLDFAST_TRACE_ONE_IN: integer({
    fallback: '1',
    min: 1,
    max: 1_000_000,
    meaning:
      'One request in this many is traced, chosen at random by the process that gets it; the others follow. Clients cannot choose.',
  }),
  HOLDFAST_CERTIFICATE_HOSTS: pattern(
    /^(|[a-z0-9.-]+(:\d{1,5})?(,[a-z0-9.-]+(:\d{1,5})?){0,15})$/,
    'up to 16 names of hosts with commas, each with `:port` if it is not 443',
    {
      fallback: '',
      meaning:
        'Public hosts whose certificates this process reads every 10 min as a client, at each of their addresses, with commas: `files.example.org,upload.example.org:8443`. Metrics and alerts then know the earliest end of each host. One process is enough.',
    },
  ),
  HOLDFAST_CERTIFICATE_SERVERS: {
    fallback: '',
    meaning:
      'Servers whose certificates this process reads every 10 min, with commas: `nats://10.0.0.1:4222,cassandra://10.0.0.1:9042,cassandra://10.0.0.1:7000`; `tls` for others, such as alertmanager and metrics of proxies. Metrics and alerts then know the end of what each of them has loaded. One process is enough.',
    form: tlsServersForm,
    secret: false,
    parse: tlsServers,
  } as Setting<TlsServer[]>,
}

export interface ProcessConfig {
  dataDir: string
  /** A start makes no new store. */
  requireStore: boolean
  region: RegionCode
  drainMs: number
  logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** Without a collector nothing is traced. */
  tracing: { collector: string | undefined; oneIn: number }
  /** Whose certificates are watched. */
  certificateHosts: readonly { host: string; port: number }[]
  certificateServers: readonly TlsServer[]
}

export function processConfig(values: ValuesOf<typeof processSettings>): ProcessConfig {
  return {
    dataDir: resolve(values.HOLDFAST_DATA_DIR),
    requireStore: values.HOLDFAST_REQUIRE_STORE,
    region: values.HOLDFAST_REGION,
    drainMs: values.HOLDFAST_DRAIN_SECONDS * 1000,
    logLevel: values.HOLDFAST_LOG_LEVEL,
    tracing: { collector: values.HOLDFAST_TRACE_URL, oneIn: values.HOLDFAST_TRACE_ONE_IN },
    certificateHosts: hostsOf(values.HOLDFAST_CERTIFICATE_HOSTS),
    certificateServers: values.HOLDFAST_CERTIFICATE_SERVERS,
  }
}

function hostsOf(list: string): ProcessConfig['certificateHosts'] {
  return list
    .split(',')
    .filter(Boolean)
    .map((item) => {
      const [host = '', port = '443'] = item.split(':')
      return { host, port: Number(port) }
    })
}
