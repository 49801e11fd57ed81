/** The scenarios: one per hot path, each with the references of the same round. */
import { type Account, type Client, get, post } from './client.ts'
import { cannon } from './json-load.ts'
import { type LoadResult, type LoopOptions, loop } from './load.ts'
import type { Nginx } from './nginx.ts'
import type { Payloads } from './payload.ts'
import type { Reference, Service } from './processes.ts'
import { Wire } from './wire.ts'

export interface Bench {
  service: Service
  reference: Reference
  /** Undefined where it is not installed. */
  nginx: Nginx | undefined
  client: Client
  payloads: Payloads
  /** Seconds of one measured phase. */
  seconds: number
  /** Sizes and counts of the short form. */
  quick: boolean
}

export interface Scenario {
  name: string
  /** What the figure counts: requests, or payload bytes. */
  unit: 'requests' | 'bytes' | 'ms'
  /** Prepares once, then measures a phase as often as called. */
  prepare(bench: Bench): Promise<() => Promise<LoadResult>>
  /**
   * What it is compared with in the same round: the same load on a reference server, or a bare rate
   * of the machine in the same unit. Undefined: not on this machine.
   */
  references: Record<string, (bench: Bench) => Promise<LoadResult | number> | undefined>
  /** Needs a fresh service; only where one can be started. Not warmed up. */
  own?: boolean
  /** Requests before the first round (1): code runs at its final speed after some thousand. */
  warm?: number
  /** Instead of the usual number. */
  rounds?: number
}

const KiB = 1024
const MiB = 1024 * KiB
/**
 * Requests before a scenario of small requests. After 3,000 V8 still compiles, and a release with
 * more code looks slower than it is (NOTES-small-uploads.md).
 */
const warmRequests = 8000
/** Uploads of a MiB before the first round: after 350, a second's worth, V8 still compiles. */
const warmUploads = 1500
/** Requests before listings: an answer has a thousand items, and its code is compiled late. */
const warmListings = 4000

export function scenarios(quick: boolean): Scenario[] {
  const large = quick ? 64 : 256
  const four = quick ? 16 : 64
  const folders = quick ? [1000, 10_000] : [1000, 10_000, 100_000, 1_000_000]
  const sorts = quick ? ['createTime', 'name'] : ['createTime', 'name', 'size', 'downloads', 'mimetype']
  return [
    upload('upload 4 KiB × 32', { bytes: 4 * KiB, connections: 32 }),
    upload('upload 1 MiB × 16', { bytes: MiB, connections: 16 }),
    upload(`upload ${four} MiB × 4`, { bytes: four * MiB, connections: 4 }),
    {
      ...upload(`upload ${large} MiB × 4, fresh service`, { bytes: large * MiB, connections: 4 }),
      own: true,
      rounds: 1,
    },
    upload(`upload ${large} MiB × 1`, { bytes: large * MiB, connections: 1 }),
    download('download 4 KiB × 32', { bytes: 4 * KiB, connections: 32, files: 256 }),
    download('download 1 MiB × 16', { bytes: MiB, connections: 16, files: 64 }),
    download(`download ${four} MiB × 4`, { bytes: four * MiB, connections: 4, files: 4 }),
    download(`download ${large} MiB × 1`, { bytes: large * MiB, connections: 1, files: 1 }),
    ranges(`64 KiB ranges of ${large} MiB × 32`, large * MiB),
    folderCreation('createFolder, one account × 32', 1),
    folderCreation('createFolder, 32 accounts × 32', 32),
    ...folders.flatMap((children) => sorts.map((sort) => listing(children, sort))),
    search(quick ? 10_000 : 100_000),
    copy(quick ? 1000 : 10_000, quick ? 10 : 3),
    zip(quick ? 200 : 2000),
    ...(quick ? [10_000] : [1000, 10_000, 100_000]).map(activation),
  ]
}

function upload(name: string, size: { bytes: number; connections: number }): Scenario {
  const unit = size.bytes < 64 * KiB ? 'requests' : 'bytes'
  function options(bench: Bench, url: URL, path: string, fields: Record<string, string>): LoopOptions {
    return {
      url,
      connections: size.connections,
      seconds: bench.seconds,
      pieces: () => bench.payloads.upload(url, path, fields, size.bytes),
      payloadBytes: size.bytes,
    }
  }
  return {
    name,
    unit,
    ...(size.bytes <= MiB ? { warm: unit === 'requests' ? warmRequests : warmUploads } : {}),
    async prepare(bench) {
      const account = await bench.client.account()
      const folderId = await bench.client.folder(account, account.rootFolder, 'uploads')
      const fields = { token: account.token, folderId }
      return () => loop(options(bench, bench.service.upload, '/uploadfile', fields))
    },
    references: {
      'node:http': (bench) => loop(options(bench, bench.reference.http, '/sink', {})),
      fastify: (bench) => loop(options(bench, bench.reference.fastify, '/uploadfile', {})),
      ...(unit === 'bytes'
        ? {
            'md5 of one core': (bench: Bench) => ask(bench, '/md5'),
            'durable appends of 1 MiB': (bench: Bench) => ask(bench, '/disk-bulk'),
          }
        : { 'lone durable appends': (bench: Bench) => ask(bench, '/disk-small') }),
    },
  }
}

async function ask(bench: Bench, path: string): Promise<number> {
  return Number(await (await fetch(new URL(path, bench.reference.http))).text())
}

function download(name: string, size: { bytes: number; connections: number; files: number }): Scenario {
  const unit = size.bytes < 64 * KiB ? 'requests' : 'bytes'
  const common = (bench: Bench): Pick<LoopOptions, 'connections' | 'seconds' | 'payloadBytes'> => ({
    connections: size.connections,
    seconds: bench.seconds,
    payloadBytes: 'answer',
  })
  return {
    name,
    unit,
    ...(unit === 'requests' ? { warm: warmRequests } : {}),
    async prepare(bench) {
      const { links } = await stored(bench, size.bytes, size.files)
      const requests = links.map((link) => get(link))
      const url = links[0] as URL
      const pieces = (n: number) => [requests[n % requests.length] as Buffer]
      return () => loop({ ...common(bench), url, pieces })
    },
    references: {
      'node:http': (bench) => {
        const request = get(new URL(`/bytes/${size.bytes}`, bench.reference.http))
        return loop({ ...common(bench), url: bench.reference.http, pieces: () => [request] })
      },
      nginx(bench) {
        const url = bench.nginx?.file(size.bytes)
        return url && loop({ ...common(bench), url, pieces: () => [get(url)] })
      },
    },
  }
}

async function stored(
  bench: Bench,
  bytes: number,
  files: number,
): Promise<{ account: Account; links: URL[] }> {
  const account = await bench.client.account()
  const folderId = await bench.client.folder(account, account.rootFolder, 'downloads')
  const url = bench.service.upload
  const fields = { token: account.token, folderId }
  await loop({
    url,
    connections: Math.min(4, files),
    seconds: 600,
    requests: files,
    pieces: () => bench.payloads.upload(url, '/uploadfile', fields, bytes),
    payloadBytes: bytes,
  })
  return { account, links: await bench.client.links(account, folderId) }
}

function ranges(name: string, bytes: number): Scenario {
  const options = (bench: Bench, url: URL, request: (n: number) => Buffer): LoopOptions => ({
    url,
    connections: 32,
    seconds: bench.seconds,
    pieces: (n) => [request(n)],
    payloadBytes: 'answer',
  })
  const rangeOf = (url: URL): Buffer => {
    const start = Math.floor(Math.random() * (bytes - 64 * KiB))
    return get(url, undefined, `Range: bytes=${start}-${start + 64 * KiB - 1}\r\n`)
  }
  return {
    name,
    unit: 'requests',
    warm: warmRequests,
    async prepare(bench) {
      const { links } = await stored(bench, bytes, 1)
      const link = links[0] as URL
      return () => loop(options(bench, link, () => rangeOf(link)))
    },
    references: {
      'node:http': (bench) => {
        const request = get(new URL(`/bytes/${64 * KiB}`, bench.reference.http))
        return loop(options(bench, bench.reference.http, () => request))
      },
      nginx(bench) {
        const url = bench.nginx?.file(bytes)
        return url && loop(options(bench, url, () => rangeOf(url)))
      },
    },
  }
}

function folderCreation(name: string, accounts: number): Scenario {
  const load = (bench: Bench) => ({ connections: 32, seconds: bench.seconds })
  return {
    name,
    unit: 'requests',
    warm: warmRequests,
    async prepare(bench) {
      const all: Account[] = []
      while (all.length < accounts) all.push(await bench.client.account())
      const requests = all.map((account) => ({
        method: 'POST' as const,
        path: '/contents/createFolder',
        body: { parentFolderId: account.rootFolder },
        token: account.token,
      }))
      return () => cannon(bench.service.api, requests, load(bench))
    },
    references: {
      fastify: (bench) => {
        const body = { parentFolderId: '00000000-0000-4000-8000-000000000000' }
        return cannon(bench.reference.fastify, [{ method: 'POST', path: '/json', body }], load(bench))
      },
    },
  }
}

const folderOfSize = new WeakMap<Service, Map<number, Promise<{ account: Account; folderId: string }>>>()

/** One folder of this many files for all scenarios that read it. */
function filled(bench: Bench, children: number): Promise<{ account: Account; folderId: string }> {
  const known = folderOfSize.get(bench.service) ?? new Map()
  folderOfSize.set(bench.service, known)
  let folder = known.get(children)
  if (!folder) {
    folder = (async () => {
      const account = await bench.client.account()
      const folderId = await bench.client.folder(account, account.rootFolder, `of ${children}`)
      // An account carries a million contents, and the folder is one of them.
      await bench.client.fill(account, folderId, Math.min(children, 999_999))
      return { account, folderId }
    })()
    known.set(children, folder)
  }
  return folder
}

function listing(children: number, sort: string): Scenario {
  const name = `list 1,000 of ${children.toLocaleString('en')} by ${sort}`
  const scenario = timed(name, async (bench) => {
    const { account, folderId } = await filled(bench, children)
    return (n) => {
      const page = (n % Math.max(1, Math.floor(children / 1000))) + 1
      const url = new URL(
        `/contents/${folderId}?page=${page}&pageSize=1000&sortField=${sort}`,
        bench.service.api,
      )
      return get(url, account.token)
    }
  })
  return { ...scenario, warm: warmListings }
}

function search(children: number): Scenario {
  return timed(`search in ${children.toLocaleString('en')}`, async (bench) => {
    const { account, folderId } = await filled(bench, children)
    const url = new URL(
      `/contents/search?contentId=${folderId}&searchedString=nothing-has-this-name`,
      bench.service.api,
    )
    return () => get(url, account.token)
  })
}

/**
 * A page's worth of bytes from memory, one request at a time: what a connection and its kernel
 * cost.
 */
function readyListing(bench: Bench): Promise<LoadResult> {
  const { http: url } = bench.reference
  const request = get(new URL('/listing', url))
  return loop({
    url,
    connections: 1,
    seconds: timedSeconds(bench),
    pieces: () => [request],
    payloadBytes: 'answer',
  })
}

/** The time of scenarios with one request at a time: a median settles sooner than a rate. */
function timedSeconds({ seconds }: Bench): number {
  return seconds / 2
}

/** One request at a time; the figure is the median of its time. */
function timed(name: string, prepare: (bench: Bench) => Promise<(n: number) => Buffer>): Scenario {
  const options = (bench: Bench, url: URL, request: (n: number) => Buffer): LoopOptions => ({
    url,
    connections: 1,
    seconds: timedSeconds(bench),
    pieces: (n) => [request(n)],
    payloadBytes: 'answer',
  })
  return {
    name,
    unit: 'ms',
    async prepare(bench) {
      const request = await prepare(bench)
      await loop({ ...options(bench, bench.service.api, request), seconds: 10, requests: 3 })
      return () => loop(options(bench, bench.service.api, request))
    },
    references: { 'node:http': readyListing },
  }
}

/** Copies per phase. */
function copy(children: number, copies: number): Scenario {
  return {
    name: `copy a folder of ${children.toLocaleString('en')}`,
    unit: 'ms',
    async prepare(bench) {
      const { account, folderId } = await filled(bench, children)
      const url = new URL('/contents/copy', bench.service.api)
      const request = post(url, { contentsId: folderId, folderId: account.rootFolder }, account.token)
      return () =>
        loop({
          url,
          connections: 1,
          seconds: 120,
          requests: copies,
          pieces: () => [request],
          payloadBytes: 0,
        })
    },
    references: { 'node:http': readyListing },
  }
}

function zip(files: number): Scenario {
  return {
    name: `ZIP of ${files} × 64 KiB`,
    unit: 'bytes',
    async prepare(bench) {
      const { account } = await stored(bench, 64 * KiB, files)
      const link = (await bench.client.json(
        'POST',
        `/contents/${account.rootFolder}/directlinks`,
        {},
        account.token,
      )) as {
        directLink: string
      }
      const url = new URL(link.directLink)
      return () =>
        loop({
          url,
          connections: 1,
          seconds: bench.seconds,
          pieces: () => [get(url)],
          payloadBytes: 'answer',
        })
    },
    references: {
      'node:http': (bench) => {
        const request = get(new URL(`/bytes/${files * 64 * KiB}`, bench.reference.http))
        const options = { connections: 1, seconds: bench.seconds, payloadBytes: 'answer' as const }
        return loop({ ...options, url: bench.reference.http, pieces: () => [request] })
      },
    },
  }
}

/** Accounts of one size that are loaded into memory in a round. */
const activatedAtOnce = 4

/**
 * The first answer of accounts of this size after a restart of the service, warm disk: the figure
 * is the median. Beside it the size of such an account, by the runtime's own estimate and by the
 * process' memory.
 */
function activation(contents: number): Scenario {
  return {
    name: `activation of an account of ${contents.toLocaleString('en')}`,
    unit: 'ms',
    own: true,
    async prepare(bench) {
      const accounts: Account[] = []
      for (let n = 0; n < activatedAtOnce; n++) {
        const account = await bench.client.account()
        const folderId = await bench.client.folder(account, account.rootFolder, 'activated')
        await bench.client.fill(account, folderId, contents)
        accounts.push(account)
      }
      // Code that no account has run yet would be part of the first one's time.
      const others: Account[] = []
      // One by one: the admin host takes 32 connections.
      while (others.length < 40) others.push(await bench.client.account())
      return async () => {
        await bench.service.restart?.()
        await firstAnswers(bench, others)
        const before = await memoryOf(bench)
        const times = await firstAnswers(bench, accounts)
        const after = await memoryOf(bench)
        const each = (from: number, to: number) => (to - from) / accounts.length / MiB
        return {
          count: times.length,
          errors: 0,
          firstError: '',
          seconds: times.reduce((sum, ms) => sum + ms, 0) / 1000,
          bytes: 0,
          p50: times.sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? Number.NaN,
          p99: times.at(-1) ?? Number.NaN,
          facts: {
            'MiB an account': each(before.estimated, after.estimated),
            'resident MiB an account': each(before.resident, after.resident),
          },
        }
      }
    },
    references: { 'node:http': readyListing },
  }
}

/** Milliseconds each, one after the other. */
async function firstAnswers(bench: Bench, accounts: readonly Account[]): Promise<number[]> {
  const wire = await Wire.open(bench.service.api)
  const times: number[] = []
  for (const account of accounts) {
    const from = performance.now()
    const answer = await wire.request([get(new URL('/accounts/getid', bench.service.api), account.token)])
    if (answer.status !== 200) throw new Error(`getid answered ${answer.status}`)
    times.push(performance.now() - from)
  }
  wire.close()
  return times
}

/** Bytes: by the runtime's estimate, which it makes every second, and resident. */
async function memoryOf({ service }: Bench): Promise<{ estimated: number; resident: number }> {
  await new Promise((resolve) => setTimeout(resolve, 1500))
  const text = await (await fetch(new URL('/metrics', service.admin))).text()
  const figure = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)
  return {
    estimated: figure('holdfast_accounts_memory_bytes'),
    resident: figure('process_resident_memory_bytes'),
  }
}
