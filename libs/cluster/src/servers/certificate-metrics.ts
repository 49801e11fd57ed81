/** The age of certificates, by what they are for. */
import { Gauge, type Registry } from 'prom-client'
import { type ClusterTrust, trustUses } from './trust.ts'

export function certificateMetrics(registry: Registry, trust: ClusterTrust): void {
  const registers = [registry]
  const labelNames = ['use', 'certificate'] as const
  const each = (gauge: Gauge<(typeof labelNames)[number]>, time: 'issuedMs' | 'expiresMs') => {
    for (const use of trustUses) {
      const certificates = trust[use]?.certificates
      if (certificates === undefined) continue
      gauge.set({ use, certificate: 'authority' }, certificates.ca[time] / 1000)
      if (certificates.own !== undefined)
        gauge.set({ use, certificate: 'own' }, certificates.own[time] / 1000)
    }
  }
  new Gauge({
    name: 'holdfast_certificate_issued_timestamp_seconds',
    help: 'When the certificate that is in use was issued: own, or of the authority that is trusted.',
    labelNames,
    registers,
    collect() {
      each(this, 'issuedMs')
    },
  })
  new Gauge({
    name: 'holdfast_certificate_expires_timestamp_seconds',
    help: 'When the certificate that is in use expires.',
    labelNames,
    registers,
    collect() {
      each(this, 'expiresMs')
    },
  })
}
