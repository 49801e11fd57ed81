/**
 * Which user of this machine made a connection over loopback.
 *
 * Linux lists both ends of it in `/proc/self/net/tcp` and `tcp6`; the client's end has the uid of
 * the user that made the socket. Only an established socket that a process still holds counts. The
 * system shows a closed one with uid 0. One that still connects did not send the request. On other
 * systems users cannot be distinguished.
 */

import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { isIPv6 } from 'node:net'
import { normalAddress } from '@holdfast/http-kit'
import { hex } from '@holdfast/kernel'

/** @returns the uid, or undefined when it cannot be known. */
export type UidOf = (connection: TcpConnection) => Promise<number | undefined>

/** As the server sees it. */
export interface TcpConnection {
  remoteAddress: string
  remotePort: number
  localAddress: string
  localPort: number
}

const tables = ['/proc/self/net/tcp', '/proc/self/net/tcp6']
const established = '01'
/** Users that a namespace does not know share this one. */
const overflowUid = 65_534

const uidOfLoopback: UidOf = async (connection) => {
  for (const table of tables) {
    const text = await readFile(table, 'latin1').catch(() => '')
    const uid = uidIn(text, connection)
    if (uid !== undefined) return uid
  }
  return undefined
}

/** @param table the text of such a file. */
export function uidIn(table: string, connection: TcpConnection): number | undefined {
  const client = spellingsOf(connection.remoteAddress, connection.remotePort)
  const server = spellingsOf(connection.localAddress, connection.localPort)
  for (const line of table.split('\n')) {
    const [, local = '', remote = '', state, , , , uid = '', , inode] = line.trim().split(/\s+/)
    if (!client.includes(local) || !server.includes(remote)) continue
    if (state === established && inode !== '0' && /^\d+$/.test(uid)) return Number(uid)
  }
  return undefined
}

/** The forms of an address in the tables: an IPv4 one is also in that of IPv6. */
function spellingsOf(address: string, port: number): string[] {
  const at = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const plain = normalAddress(address) ?? address
  if (isIPv6(plain)) return [`${plain === '::1' ? wordsOf([0, 0, 0, 1]) : '?'}${at}`]
  const [a = 0, b = 0, c = 0, d = 0] = plain.split('.').map(Number)
  const number = ((a << 24) | (b << 16) | (c << 8) | d) >>> 0
  return [`${wordsOf([number])}${at}`, `${wordsOf([0, 0, 0xffff, number])}${at}`]
}

const littleEndian = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1

/** The tables print words of memory, in which an address lies in the order of the network. */
function wordsOf(numbers: number[]): string {
  return numbers
    .map((number) => {
      const bytes = Buffer.alloc(4)
      bytes.writeUInt32BE(number)
      if (littleEndian) bytes.reverse()
      return hex(bytes).toUpperCase()
    })
    .join('')
}

/**
 * Whether a loopback connection is root's or that of the service's own user. Each connection is
 * looked up once, because its user does not change.
 */
export class LocalCallers {
  readonly #uidOf: UidOf
  readonly #known = new WeakMap<Socket, Promise<boolean>>()

  constructor(uidOf: UidOf = uidOfLoopback) {
    this.#uidOf = uidOf
  }

  isOperator(socket: Socket): Promise<boolean> {
    let known = this.#known.get(socket)
    if (known === undefined) {
      known = this.#ask(socket)
      this.#known.set(socket, known)
    }
    return known
  }

  async #ask({ remoteAddress, remotePort, localAddress, localPort }: Socket): Promise<boolean> {
    const connection = {
      remoteAddress: remoteAddress ?? '',
      remotePort: remotePort ?? 0,
      localAddress: localAddress ?? '',
      localPort: localPort ?? 0,
    }
    const uid = await this.#uidOf(connection)
    return uid === 0 || (uid !== undefined && uid !== overflowUid && uid === process.geteuid?.())
  }
}
