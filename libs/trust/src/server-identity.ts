/** A server's certificate has to name the host that was called. */
import { checkServerIdentity, type PeerCertificate } from 'node:tls'

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
