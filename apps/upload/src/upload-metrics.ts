/** What uploads do, for operators. */
import { Counter, Gauge, type Registry } from 'prom-client'

/**
 * Why an upload got no place or lost it, in this order: its network has its maximum; its network
 * has its fair share of scarce places; all places are taken; it was the slowest and made room for
 * another network.
 */
export type PlaceRefusal = 'network' | 'share' | 'full' | 'made room'

/** Stored; refused, by the service; aborted, by the client; failed, by a fault of the service. */
export type UploadOutcome = 'stored' | 'refused' | 'aborted' | 'failed'

/** Plain counters, because every small upload counts: the registry reads them at each scrape. */
export class UploadMetrics {
  readonly #uploads: Record<UploadOutcome, number> = { stored: 0, refused: 0, aborted: 0, failed: 0 }
  readonly #bytes: Record<UploadOutcome, number> = { stored: 0, refused: 0, aborted: 0, failed: 0 }
  readonly #refused: Record<PlaceRefusal, number> = { network: 0, share: 0, full: 0, 'made room': 0 }

  constructor(registry: Registry, figures: () => { uploads: number; stages: number; bytes: number }) {
    const registers = [registry]
    const gauge = (name: string, help: string, figure: 'uploads' | 'stages' | 'bytes') =>
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(figures()[figure])
        },
      })
    gauge('holdfast_uploads_in_flight', 'Running uploads.', 'uploads')
    gauge('holdfast_uploads_in_flight_stages', 'Running uploads that hold a stage of the store.', 'stages')
    gauge('holdfast_uploads_in_flight_bytes', 'Bytes received of running uploads.', 'bytes')
    const counter = (name: string, help: string, label: string, counts: Record<string, number>) =>
      new Counter({
        name,
        help,
        labelNames: [label],
        registers,
        collect() {
          this.reset()
          for (const [value, count] of Object.entries(counts)) this.inc({ [label]: value }, count)
        },
      })
    counter('holdfast_uploads_total', 'Uploads that ended.', 'outcome', this.#uploads)
    counter('holdfast_upload_bytes_total', 'Bytes of uploads that ended.', 'outcome', this.#bytes)
    counter(
      'holdfast_uploads_without_place_total',
      'Uploads that got no place or lost it.',
      'reason',
      this.#refused,
    )
  }

  ended(outcome: UploadOutcome, bytes: number): void {
    this.#uploads[outcome]++
    this.#bytes[outcome] += bytes
  }

  refused(reason: PlaceRefusal): void {
    this.#refused[reason]++
  }
}
