/**
 * Accepts the connections that wait in a listener's queue.
 *
 * libuv accepts one connection of a listener in a turn of the loop. The queue of the system is one
 * for all clients, so a connection that arrives behind a thousand others waits a thousand turns,
 * however fairly the loop divides its time after that. So when one was accepted, the others are
 * accepted here, with `accept4`, and those to refuse are refused without a socket of Node: 10 µs
 * instead of 150.
 */
import { type Server, Socket, type SocketConstructorOpts } from 'node:net'
import { systemCalls } from './system-calls.ts'

/** Maximum of one turn of the loop, some 15 µs each. The rest waits for the next turn. */
export const acceptedMax = 256
/**
 * Milliseconds of one turn. Where each one makes room by closing another, 256 of them take 30 ms. A
 * client behind a crowd of thousands waits for all of them, so most of a turn may go to them.
 */
export const acceptingMs = 4

/** A connection that no part of Node holds yet: it is refused or adopted, once. */
export interface WaitingConnection {
  /** The client's address, in any spelling; undefined when it is neither v4 nor v6. */
  address: string | undefined
  /** The client reset it, or closed it and had sent nothing. */
  hasEnded(): boolean
  /** Sends this, as far as the system takes it at once, and closes the connection. */
  refuse(text: string): void
  /** Makes it a paused socket of the server, as Node does it. */
  adopt(): Socket | undefined
}

/** What `net.Server` and `net.Socket` know of each other, so that `close` waits for its sockets. */
type ServerWithHandle = Server & { _handle?: { fd?: number } | null; _connections: number }
type SocketOfServer = Socket & { server?: Server; _server?: Server | null }

interface Calls {
  accept4(fd: number, address: Buffer, length: Buffer, flags: number): number
  poll(asked: Buffer, count: number, timeoutMs: number): number
  recv(fd: number, bytes: Buffer, length: number, flags: number): number
  send(fd: number, bytes: Buffer, length: number, flags: number): number
  close(fd: number): number
}

/** SOCK_NONBLOCK and SOCK_CLOEXEC. */
const acceptFlags = 0o4000 | 0o2000000
/** MSG_DONTWAIT and MSG_NOSIGNAL. */
const sendFlags = 0x40 | 0x4000
/** MSG_PEEK and MSG_DONTWAIT. */
const peekFlags = 0x2 | 0x40
/** `struct pollfd`: the descriptor, the requested events, the returned events. */
const pollBytes = { all: 8, asked: 4, reported: 6 }
/** POLLRDHUP, and POLLERR with POLLHUP, which are always reported. */
const closedByClient = 0x2000
const brokenOrClosed = 0x8 | 0x10
/** `struct sockaddr_in6` is the larger one of both. */
const addressBytes = 28
const families = { v4: 2, v6: 10 }
/** A listener for both has v4 clients at v6 addresses that begin so. */
const mappedV4 = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])

const calls = systemCalls(
  (library) =>
    ({
      accept4: library.func('accept4', 'int', ['int', 'void *', 'void *', 'int']),
      poll: library.func('poll', 'int', ['void *', 'unsigned long', 'int']),
      recv: library.func('recv', 'int64_t', ['int', 'void *', 'size_t', 'int']),
      send: library.func('send', 'int64_t', ['int', 'void *', 'size_t', 'int']),
      close: library.func('close', 'int', ['int']),
    }) as unknown as Calls,
)

/**
 * The next connection in the queue of the listener that accepted this socket. Undefined: none
 * waits, or the system call is not available or fails, so that Node must accept it.
 */
export function nextWaiting(accepted: Socket): WaitingConnection | undefined {
  const server = (accepted as SocketOfServer).server as ServerWithHandle | undefined
  const listener = server?._handle?.fd
  if (calls === undefined || server === undefined || listener === undefined || listener < 0) return undefined
  const { accept4, send, close } = calls
  const address = Buffer.alloc(addressBytes)
  const length = Buffer.alloc(4)
  length.writeUInt32LE(addressBytes)
  const fd = accept4(listener, address, length, acceptFlags)
  if (fd < 0) return undefined
  return {
    address: addressOf(address),
    hasEnded: () => hasEnded(fd),
    refuse(text) {
      const bytes = Buffer.from(text, 'latin1')
      send(fd, bytes, bytes.length, sendFlags)
      close(fd)
    },
    adopt: () => adoptDescriptor(server, fd),
  }
}

function hasEnded(fd: number): boolean {
  const asked = Buffer.alloc(pollBytes.all)
  asked.writeInt32LE(fd)
  asked.writeInt16LE(closedByClient, pollBytes.asked)
  if (calls === undefined || calls.poll(asked, 1, 0) <= 0) return false
  const reported = asked.readInt16LE(pollBytes.reported)
  if ((reported & brokenOrClosed) !== 0) return true
  // A client may close its half behind a request.
  return (reported & closedByClient) !== 0 && calls.recv(fd, Buffer.alloc(1), 1, peekFlags) === 0
}

function adoptDescriptor(server: ServerWithHandle, fd: number): Socket | undefined {
  const options = { fd, allowHalfOpen: true, readable: true, writable: true, pauseOnCreate: true }
  let socket: SocketOfServer
  try {
    socket = new Socket(options as SocketConstructorOpts)
  } catch {
    calls?.close(fd)
    return undefined
  }
  socket.setNoDelay(true)
  socket.server = server
  socket._server = server
  server._connections++
  return socket
}

function addressOf(bytes: Buffer): string | undefined {
  const family = bytes.readUInt16LE(0)
  if (family === families.v4) return bytes.subarray(4, 8).join('.')
  if (family !== families.v6) return undefined
  const address = bytes.subarray(8, 24)
  if (address.subarray(0, mappedV4.length).equals(mappedV4))
    return address.subarray(mappedV4.length).join('.')
  const groups = Array.from({ length: 8 }, (_, group) => address.readUInt16BE(2 * group).toString(16))
  return groups.join(':')
}
