/**
 * The network between regions: each region's router has a tun device, and a packet that it sends
 * there comes out of the device of the destination's region after the time that the way takes.
 * Packets stay in their order and none is lost; a router that is down loses what it gets, as a real
 * one does.
 *
 *   delay.ts <JSON of DelayOptions>
 *
 * A kernel with netem could do the same, but many lack it, so this program is used and tested
 * everywhere.
 */
import { constants, openSync, readSync, writeSync } from 'node:fs'
import { systemCalls } from '../../libs/http-kit/src/connections/system-calls.ts'

export interface DelayOptions {
  /** Names of the devices, one for each region. */
  devices: string[]
  /** IPv4 addresses, or their first two numbers, and the region that has them. */
  prefixes: [prefix: string, region: number][]
  /** From region to region, milliseconds. */
  delays: number[][]
}

interface Packet {
  due: number
  bytes: Buffer
  to: number
}

const setInterface = 0x400454ca
/** IFF_TUN and IFF_NO_PI: packets without a header of the device. */
const tunWithoutHeader = 0x1001
const largest = 65_536
/** In transit to all regions; what comes beyond is lost. */
const bytesMax = 256 * 1024 ** 2
const readable = 1
/** A device that is down is always ready to say so. */
const pauseMs = 20

const calls = systemCalls((library) => ({
  ioctl: library.func('int ioctl(int, unsigned long, void *)'),
  poll: library.func('int poll(_Inout_ void *, unsigned long, int)'),
}))
const [given] = process.argv.slice(2)
if (calls === undefined || given === undefined) throw new Error('this needs Linux and its options')
const { devices, prefixes, delays } = JSON.parse(given) as DelayOptions
const { ioctl, poll } = calls

const open = devices.map((name) => {
  const fd = openSync('/dev/net/tun', constants.O_RDWR | constants.O_NONBLOCK)
  const request = Buffer.alloc(40)
  request.write(name, 'latin1')
  request.writeInt16LE(tunWithoutHeader, 16)
  if (ioctl(fd, setInterface, request) < 0) throw new Error(`the device ${name} cannot be made`)
  return fd
})

const regionOf = new Map(prefixes)
/** One list for each way: on it, delays are equal and packets in their order. */
const ways = delays.map((from) => from.map((): Packet[] => []))
const buffer = Buffer.allocUnsafe(largest)
let underWay = 0
let timer: NodeJS.Timeout | undefined
let wakeAt = Number.POSITIVE_INFINITY

console.log('ready')
for (;;) {
  await readableDevice()
  const taken = open.map((fd, from) => take(from, fd))
  if (!taken.includes(true)) await new Promise((resolve) => setTimeout(resolve, pauseMs))
}

function readableDevice(): Promise<void> {
  const waiting = Buffer.alloc(8 * open.length)
  for (const [at, fd] of open.entries()) {
    waiting.writeInt32LE(fd, 8 * at)
    waiting.writeInt16LE(readable, 8 * at + 4)
  }
  return new Promise((resolve) => poll.async(waiting, open.length, -1, () => resolve()))
}

/** All that one region has sent. @returns false: nothing */
function take(from: number, fd: number): boolean {
  for (let any = false; ; any = true) {
    const length = readNow(fd)
    if (length <= 0) return any
    const to = destination()
    const delay = to === undefined ? undefined : delays[from]?.[to]
    if (to === undefined || delay === undefined || underWay + length > bytesMax) continue
    underWay += length
    const due = performance.now() + delay
    ways[from]?.[to]?.push({ due, bytes: Buffer.from(buffer.subarray(0, length)), to })
    wakeBy(due)
  }
}

function readNow(fd: number): number {
  try {
    return readSync(fd, buffer)
  } catch {
    // Nothing more, or the device is down.
    return 0
  }
}

function destination(): number | undefined {
  if (buffer[0] === undefined || buffer[0] >> 4 !== 4) return undefined
  const parts = [...buffer.subarray(16, 20)]
  return regionOf.get(parts.join('.')) ?? regionOf.get(parts.slice(0, 2).join('.'))
}

function wakeBy(due: number): void {
  if (due >= wakeAt) return
  wakeAt = due
  clearTimeout(timer)
  timer = setTimeout(deliver, Math.max(1, due - performance.now()))
}

function deliver(): void {
  const now = performance.now()
  wakeAt = Number.POSITIVE_INFINITY
  for (const way of ways.flat()) {
    let ready = 0
    while (ready < way.length && (way[ready] as Packet).due <= now + 0.5) ready++
    for (const { to, bytes } of way.splice(0, ready)) {
      underWay -= bytes.length
      try {
        writeSync(open[to] as number, bytes)
      } catch {
        // A region that is down gets nothing.
      }
    }
    wakeBy(way[0]?.due ?? Number.POSITIVE_INFINITY)
  }
}
