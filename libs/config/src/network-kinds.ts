/** Kinds of settings that name ports, addresses, servers and regions. */

import { isIP } from 'node:net'
import { isRange } from '@holdfast/access'
import { type RegionCode, regionCodes } from '@holdfast/kernel'
import { integer, type Setting } from './setting-kinds.ts'

export function port(fallback: string, meaning: string): Setting<number> {
  return integer({ fallback, meaning, min: 0, max: 65_535 })
}

export function address(fallback: string, meaning: string): Setting<string> {
  return {
    fallback,
    meaning,
    form: 'an IP address or localhost',
    secret: false,
    parse: (value) => {
      if (value !== '' && value !== 'localhost' && isIP(value) === 0)
        throw new Error(`is "${value}", but must be an IP address or localhost`)
      return value
    },
  }
}

export function regionList(value: string): RegionCode[] {
  const codes = value.split(',').map((code) => code.trim())
  for (const code of codes)
    if (!(regionCodes as readonly string[]).includes(code))
      throw new Error(`names "${code}", but the regions are ${regionCodes.join(', ')}`)
  if (new Set(codes).size < codes.length) throw new Error('names a region twice')
  return codes as RegionCode[]
}

/** `host:port`. */
export interface Endpoint {
  host: string
  port: number
}

export function endpoints(value: string): Endpoint[] {
  return value.split(',').map((one) => {
    const [, host, port] = /^\s*(\[[0-9a-f:]+\]|[A-Za-z0-9.-]+):(\d{1,5})\s*$/i.exec(one) ?? []
    if (host === undefined || !(Number(port) > 0 && Number(port) <= 65_535))
      throw new Error(`names "${one}", but must name hosts like 10.0.0.1:4222`)
    return { host, port: Number(port) }
  })
}

export function endpointsByRegion(value: string): Partial<Record<RegionCode, Endpoint[]>> {
  const pairs = value.split(';').map((one): [RegionCode, Endpoint[]] => {
    const [name = '', list = ''] = one.split('=')
    const [region] = regionList(name)
    return [region as RegionCode, endpoints(list)]
  })
  return Object.fromEntries(pairs)
}

/** A server that shows a certificate. */
export interface TlsServer {
  /** How its connections begin: `tls` with TLS. */
  scheme: 'tls' | 'nats' | 'cassandra'
  /** An IPv6 address has no brackets. */
  host: string
  port: number
}

/** As many as a region of a deployment has: six of each of 512 hosts. */
const tlsServersMax = 3_072

export const tlsServersForm = `up to ${tlsServersMax} servers like nats://10.0.0.1:4222,cassandra://10.0.0.1:9042`

/** None in an empty text. */
export function tlsServers(value: string): TlsServer[] {
  const all = value === '' ? [] : value.split(',').map(tlsServer)
  if (all.length > tlsServersMax)
    throw new Error(`names ${all.length} servers, but must name ${tlsServersForm}`)
  return all
}

function tlsServer(text: string): TlsServer {
  const [, scheme, host = '', address = '', port] =
    /^(tls|nats|cassandra):\/\/(?:([A-Za-z0-9.-]+)|\[([0-9A-Fa-f:.]+)\]):([1-9]\d{0,4})$/.exec(text) ?? []
  if (scheme === undefined || !(Number(port) <= 65_535) || (host === '' && isIP(address) !== 6))
    throw new Error(`names "${text}", but must name ${tlsServersForm}`)
  return { scheme: scheme as TlsServer['scheme'], host: host || address, port: Number(port) }
}

export const trustedProxiesForm = 'off, a number of hops from 1 to 9, or addresses like 10.0.0.0/8,::1'

export function trustedProxies(value: string): string[] | number | false {
  if (value === 'off' || value === '0') return false
  if (/^[1-9]$/.test(value)) return Number(value)
  const names = value.split(',').map((name) => name.trim())
  if (names.every(isNetwork)) return names
  throw new Error(`is "${value}", but must be ${trustedProxiesForm}`)
}

const namedNetworks = ['loopback', 'linklocal', 'uniquelocal']

function isNetwork(value: string): boolean {
  return namedNetworks.includes(value) || isRange(value)
}
