/**
 * How many bytes the other end of a connection has received. A socket accepts megabytes at once,
 * which then wait in the kernel, so the bytes that Node has written say nothing about the reader.
 * Linux counts the bytes that the peer has confirmed, and Node does not offer the count.
 */
import type { Socket } from 'node:net'
import { systemCalls } from './system-calls.ts'

const tcp = 6
/** `TCP_INFO`, and the place of `tcpi_bytes_acked` in `struct tcp_info` since Linux 4.1. */
const info = { option: 11, bytes: 128, confirmedAt: 120 }

const getsockopt = systemCalls((library) =>
  library.func('getsockopt', 'int', ['int', 'int', 'int', 'void *', 'void *']),
)

/** Bytes so far; undefined where the system does not report them, or the connection is closed. */
export function confirmedBytes(socket: Socket): number | undefined {
  const { _handle: handle } = socket as Socket & { _handle?: { fd?: number } | null }
  const descriptor = handle?.fd
  if (getsockopt === undefined || descriptor === undefined || descriptor < 0) return undefined
  const answer = Buffer.alloc(info.bytes)
  const length = new Uint32Array([info.bytes])
  if (getsockopt(descriptor, tcp, info.option, answer, length) !== 0 || length[0] !== info.bytes)
    return undefined
  return Number(answer.readBigUInt64LE(info.confirmedAt))
}
