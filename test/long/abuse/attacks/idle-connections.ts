/**
 * More connections than the service has descriptors or places, without requests or with few.
 * Some accounts write meanwhile, so that a metadata store that fails for lack of a descriptor is
 * noticed.
 */
import { type Attack, listeners } from '../attack.ts'
import { address, type HostileClient, request } from '../hostile.ts'
import { busyWriters, writeMuch, writersAheadMs } from './busy-writers.ts'

const each = 1_100
const addresses = 12

export const idleConnections: Attack = {
  name: 'idle connections: 1,100 to each listener',
  short: true,
  seconds: 12,
  prepare: busyWriters,
  run: async (hostile) => {
    const writing = writeMuch(hostile)
    await hostile.pause(writersAheadMs)
    await hold(hostile, (number) => address(0, number % addresses))
    await writing
  },
}

/** Nothing paces them: they come within one or two turns of the service's loop. */
export const idleCrowd: Attack = {
  name: 'idle connections: 3,000 of 40 addresses at once',
  run: async (hostile) => {
    const hosts = ['api', 'upload', 'download'] as const
    for (let number = 0; number < 3_000; number++) {
      const host = hosts[number % hosts.length] ?? 'api'
      const socket = hostile.connect(host, { from: address(7, number % 40), answers: 'drop' })
      hostile.sent()
      // Empty lines may precede a request.
      if (number % 2 === 0) socket.write('\r\n')
    }
    await hostile.pause(600_000)
  },
}

export const idleConnectionsV6: Attack = {
  name: 'idle connections from 1,100 IPv6 networks',
  manyIpv6: true,
  run: (hostile) => hold(hostile, (number) => `2001:db8:${number.toString(16)}::1`),
}

/** More networks than a host has places, each with one connection on which it keeps asking. */
export const askingNetworks: Attack = {
  name: 'requests of 320 networks, five a second each',
  run: (hostile) =>
    hostile.each(320, async (number) => {
      const socket = hostile.connect('api', { from: address(6, number), answers: 'drop' })
      while (await hostile.write(socket, request('/status'))) {
        hostile.sent()
        await hostile.pause(200)
      }
      await hostile.pause(200)
    }),
}

function hold(hostile: HostileClient, from: (number: number) => string): Promise<void> {
  // The admin host listens to this machine alone, and on IPv4.
  const reached = listeners.filter((listener) => listener !== 'admin' || !from(0).includes(':'))
  return Promise.all(
    reached.map((listener) =>
      hostile.hold(each, (number) => hostile.connect(listener, { from: from(number), answers: 'drop' })),
    ),
  ).then(() => undefined)
}
