/**
 * The links of a cluster: every address that a region's processes may use in another region.
 *
 * Cassandra and NATS know one address of a peer and pass it on to each other, so the regions
 * that connect there cannot have different ones. The first message of a connection says which
 * region it is from. Holdfast's own processes are routed by the region that they run in.
 */
import { serverPorts } from '../regions/roles.ts'
import type { LocalPlan } from './planned-processes.ts'
import { listenAddressOf, natsPorts } from './platform.ts'
import type { Address, Link, Senders } from './wan.ts'

const nodePorts = ['CONTROL', 'BYTES', 'DOWNLOAD'] as const

export function linksOf({ regions, processes, choices }: LocalPlan): Link[] {
  const codeOf = new Map(regions.map(({ code, address }) => [address, code]))
  const codes = new Set(regions.map(({ code }) => code))
  return regions.flatMap(({ code, address }) => {
    const others = [...codes].filter((other) => other !== code)
    const behindLink = (port: number, regionIn: Senders['regionIn']): Link[] =>
      others.length === 0
        ? []
        : [
            {
              from: { regions: others, regionIn },
              to: code,
              listen: { host: address, port },
              target: { host: listenAddressOf(address), port },
            },
          ]
    const routed = [
      { host: address, port: serverPorts.cassandra.client },
      ...processes
        .filter(({ settings, region }) => settings.HOLDFAST_CONTROL_PORT !== undefined && region === code)
        .flatMap(({ settings }) => nodePorts.map((name) => nodeAddress(settings, name))),
    ]
    return [
      ...behindLink(serverPorts.cassandra.storage, (bytes) => codeOf.get(cassandraSender(bytes) ?? '')),
      ...behindLink(choices.ports[natsPorts.gateway] ?? 0, (bytes) => {
        const name = gatewaySender(bytes)
        return name !== undefined && codes.has(name) ? name : undefined
      }),
      ...others.flatMap((from) => routed.map((target): Link => ({ from, to: code, target }))),
    ]
  })
}

/** Downloads are for users, the others for nodes. */
function nodeAddress(settings: Record<string, string>, name: (typeof nodePorts)[number]): Address {
  const bind = name === 'DOWNLOAD' ? settings.HOLDFAST_BIND : settings.HOLDFAST_INTERNAL_BIND
  return { host: bind ?? '', port: Number(settings[`HOLDFAST_${name}_PORT`]) }
}

const cassandraMagic = 0xca_55_2d_fa
/** The length of an IPv4 address with a port. */
const addressBytes = 6

/**
 * The address of the node that opened a connection between nodes. Its first message is `Initiate`:
 * 4 bytes of magic, 4 of flags, 1 with the length of what follows, 4 of the address, 2 of the port.
 * @returns undefined while it is incomplete, or when it is something else
 */
export function cassandraSender(bytes: Buffer): string | undefined {
  if (bytes.length < 15 || bytes.readUInt32BE(0) !== cassandraMagic || bytes[8] !== addressBytes)
    return undefined
  return bytes.subarray(9, 13).join('.')
}

/**
 * The name of the gateway that opened a connection between gateways. Its first message is `CONNECT`
 * with an object in JSON, after the server has said `INFO`.
 * @returns undefined while it is incomplete, or when it is something else
 */
export function gatewaySender(bytes: Buffer): string | undefined {
  const [, text] = /^CONNECT (\{.*\})\r\n/.exec(bytes.toString('latin1')) ?? []
  if (text === undefined) return undefined
  try {
    const { gateway } = JSON.parse(text) as { gateway?: unknown }
    return typeof gateway === 'string' ? gateway : undefined
  } catch {
    return undefined
  }
}
