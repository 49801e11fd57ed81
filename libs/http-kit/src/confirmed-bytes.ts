/**
 * What the other end of a connection has taken. A socket accepts megabytes at once, which then wait
 * in the kernel: what Node has written says nothing about a reader. Linux counts the bytes that the
 * peer has confirmed, and Node does not offer the count.
 */
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'

type Confirmed = (descriptor: number) => number | undefined

/** Loaded at the first use: most processes never need it. */
let confirmed: Confirmed | undefined

/** Bytes so far; undefined where the system does not tell, or the connection is closed. */
export function confirmedBytes(socket: Socket): number | undefined {
  const { _handle: handle } = socket as Socket & { _handle?: { fd?: number } | null }
  const descriptor = handle?.fd
  if (descriptor === undefined || descriptor < 0) return undefined
  confirmed ??= load()
  return confirmed(descriptor)
}

const tcp = 6
/** `TCP_INFO`, and the place of `tcpi_bytes_acked` in `struct tcp_info` since Linux 4.1. */
const info = { option: 11, bytes: 128, confirmedAt: 120 }

function load(): Confirmed {
  try {
    if (process.platform !== 'linux') return () => undefined
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
    const getsockopt = koffi.load(null).func('getsockopt', 'int', ['int', 'int', 'int', 'void *', 'void *'])
    const answer = Buffer.alloc(info.bytes)
    const length = new Uint32Array(1)
    return (descriptor) => {
      length[0] = info.bytes
      if (getsockopt(descriptor, tcp, info.option, answer, length) !== 0 || length[0] !== info.bytes)
        return undefined
      return Number(answer.readBigUInt64LE(info.confirmedAt))
    }
  } catch {
    return () => undefined
  }
}
