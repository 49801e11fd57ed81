import { Counter, Gauge, type Registry } from 'prom-client'

type Reason = 'host' | 'reason'

/** One set per registry, shared by the hosts of a process. */
export function connectionFigures(registry: Registry) {
  const gauge = (name: string, help: string) =>
    (registry.getSingleMetric(name) as Gauge<'host'> | undefined) ??
    new Gauge({ name, help, labelNames: ['host'], registers: [registry] })
  const counter = (name: string, help: string) =>
    (registry.getSingleMetric(name) as Counter<Reason> | undefined) ??
    new Counter({ name, help, labelNames: ['host', 'reason'], registers: [registry] })
  return {
    open: gauge('holdfast_connections', 'Connections open now.'),
    max: gauge('holdfast_connections_max', 'Connections that the host accepts; scarce above half of it.'),
    refused: counter(
      'holdfast_connections_refused_total',
      'Refused: the host was full, the network had as many connections or requests as it may, too many requests were sent ahead, its small pieces waited too long (pieces), or it began without the TLS or the certificate that the host asks for (handshake).',
    ),
    evicted: counter(
      'holdfast_connections_evicted_total',
      'Closed to make room: silent ones, which never asked for anything, idle ones, the longest idle of a network at its maximum, stalled readers and slow ones of a full host, young ones of a network that has more than others there.',
    ),
  }
}
