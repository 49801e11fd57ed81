/** A server's certificate has to name the host that was called. */
import { checkServerIdentity, type PeerCertificate } from 'node:tls'

/**
 * Names in certificates of a cluster that stand for a part instead of a host. A proxy asks all
 * frontends by one name, and frontends answer only proxies.
 */
export const clusterNames = {
  /** In the certificate of a host that runs API or upload frontends. */
  frontend: 'frontend.holdfast.internal',
  /** In the certificate that a proxy shows to frontends. */
  proxy: 'proxy.holdfast.internal',
} as const

/** The host of `host:port` or of a URL, without brackets. */
export function hostOf(address: string): string {
  return address
    .replace(/^[a-z]+:\/\//, '')
    .replace(/:\d+$/, '')
    .replace(/^\[(.*)\]$/, '$1')
}

/**
 * For `checkServerIdentity` of Node. It ignores the name that a client library asked for: some
 * libraries cannot ask for an address.
 * @param hosts a certificate of any of them is valid
 */
export function isOfHost(
  ...hosts: string[]
): (name: string, certificate: PeerCertificate) => Error | undefined {
  return (_name, certificate) => {
    const faults = hosts.map((host) => checkServerIdentity(host, certificate))
    return faults.includes(undefined) ? undefined : faults[0]
  }
}
