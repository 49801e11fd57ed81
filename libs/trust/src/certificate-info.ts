/** The fields of a certificate that operators need. */
import { X509Certificate } from 'node:crypto'

export interface CertificateInfo {
  /** Its common name. */
  name: string
  /** `DNS:par1`, `IP Address:10.1.0.11`. */
  names: readonly string[]
  isAuthority: boolean
  issuedMs: number
  expiresMs: number
}

/** About the first certificate of a PEM. @throws Error when there is none */
export function certificateInfoOf(pem: string): CertificateInfo {
  const certificate = new X509Certificate(pem)
  return {
    name: /^CN=(.*)$/m.exec(certificate.subject)?.[1] ?? certificate.subject,
    names: certificate.subjectAltName?.split(', ') ?? [],
    isAuthority: certificate.ca,
    issuedMs: certificate.validFromDate.getTime(),
    expiresMs: certificate.validToDate.getTime(),
  }
}
