/** Real faults of one machine, and the alerts that are for them. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { exitCodes } from '@holdfast/bootstrap'
import { LevelMetadataStore } from '@holdfast/journal-level'
import { testMetadataStore } from '@holdfast/journal-level/testing'
import { Filler } from '../../support/small-disk.ts'
import { SmtpServer } from '../../support/smtp-server.ts'
import { later } from './prometheus.ts'
import type { World, WorldOptions } from './world.ts'

export interface Fault {
  name: string
  /** Each of them has to fire. */
  alerts: readonly string[]
  /** May fire, too. */
  besides?: readonly string[]
  /** @param disk a file system of 320 MiB of its own, where there is one */
  world?: (disk: string) => WorldOptions
  /** Before the healthy time: what the fault needs. */
  prepare?: (world: World) => Promise<void>
  /** @returns how it ends, if it does not end with the service */
  make: (world: World, disk: string) => Promise<(() => Promise<void>) | undefined>
}

const MiB = 1024 * 1024
/** 5,000 reports fill the queue: those of 250 contents. */
const reportedContents = { before: 245, full: 260 }
/** A failed part has a minute to recover. */
const endsWithinMs = 100_000
const rotting = 'bytes that rot '.repeat(400)
/** Above 50 within an hour the scrubber stops. */
const allRotting = Array.from({ length: 60 }, (_, at) => `bytes of file ${at} that rot `.repeat(250))
/** Servers outlive the functions that start them. */
const mail: { server?: SmtpServer } = {}

export const faults: readonly Fault[] = [
  {
    name: 'kill -9',
    alerts: ['HoldfastProcessDown'],
    make: async ({ service }) => {
      await service.kill()
      return undefined
    },
  },
  {
    name: 'three crashes and starts',
    alerts: ['HoldfastRestarts'],
    besides: ['HoldfastProcessDown', 'HoldfastErrorsFast', 'HoldfastErrorsSlow', 'HoldfastReconcileOld'],
    // A busy machine takes ten seconds for a start.
    world: () => ({ windowSeconds: 120 }),
    make: async ({ service, prometheus }) => {
      /** Each life has to be seen: a scrape of a process that just began may take too long. */
      const seen = async (before?: string): Promise<string> => {
        for (;;) {
          const [series] = await prometheus.query('process_start_time_seconds{job="holdfast"}')
          if (series !== undefined && series.value[1] !== before) return series.value[1]
          await later(200)
        }
      }
      let life = await seen()
      for (let time = 0; time < 3; time++) {
        await service.kill()
        await service.start()
        life = await seen(life)
      }
      return undefined
    },
  },
  {
    name: 'kill -STOP and -CONT, again and again',
    alerts: ['HoldfastSlowFast', 'HoldfastSlowSlow', 'HoldfastLoopSlow'],
    besides: ['HoldfastProcessDown', 'HoldfastReconcileOld', 'HoldfastCollectPaused'],
    make: async (world) => {
      const pid = world.service.pid as number
      let ended = false
      const stopping = (async () => {
        for (let round = 0; !ended; round++) {
          const calls = Array.from({ length: 200 }, (_, at) => world.createFolder(`stopped ${round} ${at}`))
          // Some of them have come, and are not answered, on a fast machine and on a slow one.
          await later([5, 10, 20, 40][round % 4] as number)
          process.kill(pid, 'SIGSTOP')
          await later(1_100)
          process.kill(pid, 'SIGCONT')
          await Promise.all(calls)
        }
      })()
      return async () => {
        ended = true
        await stopping
      }
    },
  },
  {
    name: 'another program fills the disk to the last byte',
    alerts: [
      ...['HoldfastMetadataUnwritable', 'HoldfastStoreUnwritable', 'HoldfastNotReady'],
      ...['HoldfastErrorsFast', 'HoldfastErrorsSlow'],
    ],
    besides: [
      ...['HoldfastDiskFull', 'HoldfastCollectPaused', 'HoldfastReconcileOld', 'HoldfastScrubOld'],
      'HoldfastDiskFaults',
    ],
    world: (disk) => ({ dataDir: join(disk, 'full') }),
    make: async (_, disk) => {
      const filler = new Filler(disk)
      // What is released meanwhile is taken, too.
      let ended = false
      const filling = (async () => {
        while (!ended) {
          await filler.fill()
          await later(200)
        }
      })()
      return async () => {
        ended = true
        await filling
        await filler.empty()
      }
    },
  },
  {
    name: 'another program fills the disk slowly',
    alerts: ['HoldfastDiskFull'],
    besides: ['HoldfastStoreUnwritable', 'HoldfastNotReady', 'HoldfastDiskFaults'],
    world: (disk) => ({ dataDir: join(disk, 'filling') }),
    make: async (_, disk) => {
      const path = join(disk, 'slowly')
      const file = openSync(path, 'w')
      for (let room = Number.POSITIVE_INFINITY; room > 32 * MiB; ) {
        for (let piece = 0; piece < 10; piece++) writeSync(file, Buffer.alloc(MiB, 1))
        await later(1_000)
        const { bavail, bsize } = statfsSync(disk)
        room = bavail * bsize
      }
      return async () => {
        closeSync(file)
        rmSync(path)
      }
    },
  },
  {
    name: 'bits of a file flip on the disk',
    alerts: ['HoldfastDamaged', 'HoldfastDiskFaults'],
    prepare: async (world) => void (await world.upload(rotting, { token: world.guest.token })),
    make: async ({ service }) => {
      await service.terminate()
      rot(service.dataDir, [rotting])
      await service.start()
      return undefined
    },
    besides: ['HoldfastProcessDown'],
  },
  {
    name: 'the disk returns wrong bytes of many files',
    alerts: ['HoldfastScrubStopped', 'HoldfastDiskFaults'],
    besides: ['HoldfastProcessDown', 'HoldfastDamaged'],
    prepare: async (world) => {
      for (const text of allRotting) await world.upload(text, { token: world.guest.token })
    },
    make: async ({ service }) => {
      await service.terminate()
      rot(service.dataDir, allRotting)
      await service.start()
      return undefined
    },
  },
  {
    name: 'a file of the store is deleted',
    alerts: ['HoldfastExtentsQuarantined'],
    besides: [
      ...['HoldfastProcessDown', 'HoldfastDamaged', 'HoldfastCollectPaused'],
      ...['HoldfastErrorsFast', 'HoldfastErrorsSlow', 'HoldfastScrubOld', 'HoldfastDiskFaults'],
    ],
    make: async ({ service }) => {
      await service.terminate()
      const extents = join(service.dataDir, 'blobs', 'extents')
      for (const name of readdirSync(extents)) rmSync(join(extents, name))
      await service.start()
      return undefined
    },
  },
  {
    name: 'the end of the metadata log is lost',
    alerts: [
      ...['HoldfastMetadataLost', 'HoldfastMetadataIncomplete'],
      ...['HoldfastCollectPaused', 'HoldfastQuarantine'],
    ],
    besides: ['HoldfastProcessDown', 'HoldfastErrorsFast', 'HoldfastErrorsSlow', 'HoldfastReconcileOld'],
    make: async ({ service }) => {
      await service.kill()
      const rows = join(service.dataDir, 'metadata', 'rows')
      for (const name of readdirSync(rows).filter((one) => one.endsWith('.log'))) {
        const path = join(rows, name)
        truncateSync(path, Math.floor(readFileSync(path).length * 0.7))
      }
      await service.start()
      return undefined
    },
  },
  {
    name: 'the catalogue of the store is overwritten',
    alerts: ['HoldfastStoreFailed'],
    besides: [
      ...['HoldfastProcessDown', 'HoldfastStoreUnwritable', 'HoldfastNotReady', 'HoldfastErrorsFast'],
      ...['HoldfastErrorsSlow', 'HoldfastCollectPaused', 'HoldfastReconcileOld', 'HoldfastScrubOld'],
    ],
    make: async (world) => {
      const { service } = world
      // A clean restart writes its rows into tables.
      await service.terminate()
      await service.start()
      const blobs = join(service.dataDir, 'blobs')
      for (const name of readdirSync(blobs, { recursive: true }) as string[]) {
        if (!/^catalogue-.*\.(sst|ldb)$/.test(name)) continue
        const path = join(blobs, name)
        const { length } = readFileSync(path)
        const file = openSync(path, 'r+')
        writeSync(file, randomBytes(length), 0, length, 0)
        closeSync(file)
      }
      await world.ask(`${service.admin}/admin/collect`, { method: 'POST' })
      // It ends by itself after a minute, and the next start makes a catalogue again.
      return async () => {
        const deadline = performance.now() + endsWithinMs
        while (service.running && performance.now() < deadline) await later(500)
        assert.equal(service.exitCode, exitCodes.PART_FAILED)
        await service.start()
        assert.ok(await world.upload('after the restart'), 'uploads work again')
      }
    },
  },
  {
    name: 'no pass over all files follows',
    alerts: ['HoldfastScrubOld'],
    world: () => ({ settings: { HOLDFAST_SCRUB_SECONDS: '3600' }, times: 150_000 }),
    // At this scale an ordinary round is old, too.
    besides: ['HoldfastReconcileOld'],
    make: async () => undefined,
  },
  {
    name: 'no comparison with the accounts follows',
    alerts: ['HoldfastReconcileOld'],
    world: () => ({ settings: { HOLDFAST_RECONCILE_SECONDS: '86400', HOLDFAST_COLLECT_SECONDS: '3600' } }),
    prepare: async (world) =>
      void (await world.ask(`${world.service.admin}/admin/reconcile`, { method: 'POST' })),
    make: async () => undefined,
  },
  {
    name: 'no backup follows',
    alerts: ['HoldfastBackupOld'],
    prepare: async (world) => {
      const target = `${world.service.dataDir}-backup`
      await world.ask(`${world.service.admin}/admin/backup`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ target }),
      })
    },
    make: async () => undefined,
  },
  {
    name: 'the mail relay is away',
    alerts: ['HoldfastMailsFail'],
    world: () => ({ settings: { HOLDFAST_SMTP_URL: mail.server?.url ?? '' } }),
    prepare: async (world) => void (await account(world, 'first@example.org')),
    make: async (world) => {
      await mail.server?.stop()
      await account(world, 'second@example.org')
      return undefined
    },
  },
  {
    name: 'the scanner fails',
    alerts: ['HoldfastScannerFails'],
    besides: ['HoldfastErrorsFast', 'HoldfastErrorsSlow'],
    world: (disk) => ({ settings: { HOLDFAST_SCANNER: `program:${scannerOn(disk)}` } }),
    make: async (_, disk) => {
      rmSync(join(disk, 'scanner'))
      return undefined
    },
  },
  {
    name: 'the queue of reports is full',
    alerts: ['HoldfastReportsFull'],
    world: () => ({ settings: { HOLDFAST_TRUST_PROXY: 'loopback' } }),
    // A busy machine takes longer for all of them than an alert may take.
    prepare: async (world) => {
      for (let number = 0; number < reportedContents.before; number++) await reportNewContent(world, number)
    },
    make: async (world) => {
      for (let number = reportedContents.before; number < reportedContents.full; number++)
        await reportNewContent(world, number)
      return undefined
    },
  },
  {
    name: 'a burst of refused requests',
    alerts: ['HoldfastRefusals'],
    besides: ['HoldfastSlowFast', 'HoldfastSlowSlow'],
    world: () => ({ settings: { HOLDFAST_RATE_LIMITS: 'default' } }),
    make: async ({ service }) => {
      let ended = false
      const one = async () => {
        while (!ended) {
          const answer = await fetch(`${service.api}/accounts`, { method: 'POST' }).catch(() => undefined)
          await answer?.text().catch(() => undefined)
        }
      }
      const all = Array.from({ length: 16 }, one)
      return async () => {
        ended = true
        await Promise.all(all)
      }
    },
  },
  {
    name: 'somebody holds the connections of a host',
    alerts: ['HoldfastConnectionsScarce'],
    world: () => ({ settings: { HOLDFAST_CONNECTIONS_MAX: '150' } }),
    make: ({ service }) => hold([service.ports[0]], 44),
  },
  {
    name: 'connections use up the descriptors',
    alerts: ['HoldfastDescriptorsScarce', 'HoldfastConnectionsScarce'],
    besides: ['HoldfastProcessDown'],
    world: () => ({ bounds: { openFilesMax: 4_096, heapMiB: 512 } }),
    make: ({ service }) => hold(service.ports.slice(0, 3), 1_100),
  },
  {
    name: 'the clock stands 400 days ahead of the noted time',
    alerts: ['HoldfastClockJump'],
    besides: ['HoldfastProcessDown'],
    make: async ({ service }) => {
      await service.terminate()
      const store = await LevelMetadataStore.open({
        ...testMetadataStore,
        path: join(service.dataDir, 'metadata'),
      })
      const noted = Date.now() - 400 * 86_400_000
      await store.lookups.write([{ put: 'clock/newest', value: Buffer.from(String(noted)) }])
      await store.close()
      await service.start()
      return undefined
    },
  },
]

/** Makes a scanner that finds nothing. */
function scannerOn(disk: string): string {
  const path = join(disk, 'scanner')
  writeFileSync(path, '#!/bin/sh\nexec cat > /dev/null\n', { mode: 0o755 })
  return path
}

/** For the faults that need a relay. @returns ends it */
export async function startRelay(): Promise<() => Promise<void>> {
  mail.server = await SmtpServer.start()
  return async () => mail.server?.stop().catch(() => undefined)
}

function account(world: World, email: string) {
  return world.ask(`${world.service.admin}/admin/accounts`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email }),
  })
}

/** By 20 visitors, as many as one content may wait for, from a large network of their own. */
async function reportNewContent(world: World, number: number): Promise<void> {
  const item = await world.upload(`reported ${number}`)
  const form = (item?.downloadPage ?? '').replace('/d/', '/report/')
  const report = (visitor: number) =>
    fetch(form, {
      method: 'POST',
      headers: { 'x-forwarded-for': `10.${number % 256}.${number >> 8}.${visitor}` },
      body: new URLSearchParams({ category: 'other' }),
    })
  const answers = await Promise.all(Array.from({ length: 20 }, (_, visitor) => report(visitor)))
  await Promise.all(answers.map((answer) => answer.arrayBuffer()))
}

/** Connections that have asked once, and are open. */
async function hold(ports: readonly number[], each: number): Promise<() => Promise<void>> {
  const sockets: Socket[] = []
  for (const port of ports)
    for (let one = 0; one < each; one++) {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => undefined)
      socket.write('GET /livez HTTP/1.1\r\nHost: here\r\n\r\n')
      socket.resume()
      sockets.push(socket)
    }
  return async () => {
    for (const socket of sockets) socket.destroy()
  }
}

/** Flips a bit of each file that was uploaded for this. */
function rot(dataDir: string, texts: readonly string[]): void {
  const extents = join(dataDir, 'blobs', 'extents')
  let flipped = 0
  for (const name of readdirSync(extents)) {
    const path = join(extents, name)
    const bytes = readFileSync(path)
    const file = openSync(path, 'r+')
    for (const text of texts) {
      const at = bytes.indexOf(text)
      if (at < 0) continue
      writeSync(file, Buffer.from([text.charCodeAt(0) ^ 1]), 0, 1, at)
      flipped++
    }
    closeSync(file)
  }
  assert.equal(flipped, texts.length, 'files on the disk')
}
