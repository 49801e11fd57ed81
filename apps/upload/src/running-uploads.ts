/**
 * The places of uploads: how many run at a time, and how many of them hold a stage of the store.
 *
 * Places are bounded in all and for each network. While more than half of them are taken, a network
 * gets no more than its fair share. When all are taken, a network with less than the largest one
 * still gets a place: the slowest upload of the largest network is ended for it. So a few networks
 * of slow uploads cannot block others. When all networks have the same number, the slowest upload
 * below `slowBytesPerSecond` is ended; without one the new upload is refused.
 *
 * Every place is taken synchronously in the call that asks for it.
 */
import { RefusalError, unavailableRetrySeconds } from '@holdfast/http-kit'
import type { UploadMetrics } from './upload-metrics.ts'

export interface PlacesOptions {
  /**
   * Uploads of one network. Infinity: networks are not distinguished, and only the total is
   * bounded.
   */
  perNetworkMax: number
  uploadsMax: number
  stagesMax: number
  /** Monotonic ms. */
  now: () => number
  metrics: UploadMetrics
}

/** A running upload, as its place sees it. */
export interface RunningUpload {
  /** All of its bytes have arrived: it is about to end. */
  readonly isComplete: boolean
  /** Ends it; its stage is released at once. */
  cutOff(refusal: RefusalError): void
}

type Kind = 'uploads' | 'stages'

interface NetworkUploads {
  readonly name: string
  uploads: number
  stages: number
  readonly places: Set<UploadPlace>
}

/** Below this an upload is slow: a phone with a bad connection is ten times as fast. */
const slowBytesPerSecond = 16 * 1024
/** How long a new upload is not measured. */
const startMs = 2_000

export class RunningUploads {
  readonly #options: PlacesOptions
  readonly #networks = new Map<string, NetworkUploads>()
  readonly #used: Record<Kind, number> = { uploads: 0, stages: 0 }
  /** Networks that hold stages. */
  #stagingNetworks = 0

  constructor(options: PlacesOptions) {
    this.#options = options
  }

  /**
   * @throws RefusalError error-rateLimit when this network has its share, error-unavailable when
   *   all places belong to uploads that are fast enough.
   */
  begin(network: string, running: RunningUpload): UploadPlace {
    const found = this.#networks.get(network)
    const { perNetworkMax, metrics } = this.#options
    if ((found?.uploads ?? 0) >= perNetworkMax) {
      metrics.refused('network')
      throw new RefusalError('error-rateLimit', { retryAfter: 1 })
    }
    this.#admit(found, 'uploads')
    const entry = this.#networks.get(network) ?? { name: network, uploads: 0, stages: 0, places: new Set() }
    this.#networks.set(network, entry)
    const place = new UploadPlace(this, entry, running, this.#options.now())
    entry.uploads++
    entry.places.add(place)
    this.#used.uploads++
    return place
  }

  /** For `UploadPlace`. @throws RefusalError as `begin` */
  drawStage(network: NetworkUploads): void {
    this.#admit(network, 'stages')
    if (network.stages++ === 0) this.#stagingNetworks++
    this.#used.stages++
  }

  /** For `UploadPlace`. */
  release(place: UploadPlace, network: NetworkUploads): void {
    this.#used.uploads--
    network.uploads--
    network.places.delete(place)
    if (place.hasStage) {
      this.#used.stages--
      if (--network.stages === 0) this.#stagingNetworks--
    }
    if (network.uploads === 0) this.#networks.delete(network.name)
  }

  /** More than half of the places are taken: slow uploads have less time. */
  get isScarce(): boolean {
    const { uploadsMax, stagesMax } = this.#options
    return this.#used.uploads > uploadsMax / 2 || this.#used.stages > stagesMax / 2
  }

  /** For metrics. */
  get figures(): { uploads: number; stages: number; bytes: number } {
    let bytes = 0
    for (const { places } of this.#networks.values()) for (const place of places) bytes += place.bytes
    return { ...this.#used, bytes }
  }

  #admit(network: NetworkUploads | undefined, kind: Kind): void {
    const { perNetworkMax, metrics } = this.#options
    const max = kind === 'uploads' ? this.#options.uploadsMax : this.#options.stagesMax
    const used = this.#used[kind]
    if (used < max / 2) return
    const held = network?.[kind] ?? 0
    const sharing = perNetworkMax !== Number.POSITIVE_INFINITY
    const networks = (kind === 'uploads' ? this.#networks.size : this.#stagingNetworks) + (held === 0 ? 1 : 0)
    if (sharing && held >= Math.max(1, Math.floor(max / networks))) {
      metrics.refused('share')
      throw new RefusalError('error-rateLimit', { retryAfter: 1 })
    }
    if (used < max) return
    const victim = (sharing ? this.#ofLargest(kind, held + 1) : undefined) ?? this.#slowest(kind)
    if (victim === undefined) {
      metrics.refused('full')
      throw new RefusalError('error-unavailable', { retryAfter: unavailableRetrySeconds })
    }
    metrics.refused('made room')
    victim.cutOff()
  }

  /** The slowest upload of the network that holds the most, more than `least`. */
  #ofLargest(kind: Kind, least: number): UploadPlace | undefined {
    let largest: NetworkUploads | undefined
    for (const network of this.#networks.values())
      if (network[kind] > Math.max(least, largest?.[kind] ?? 0)) largest = network
    return largest && slowestOf(largest.places, kind, this.#options.now())
  }

  #slowest(kind: Kind): UploadPlace | undefined {
    const now = this.#options.now()
    let slowest: UploadPlace | undefined
    let pace = slowBytesPerSecond
    for (const { places } of this.#networks.values()) {
      const place = slowestOf(places, kind, now)
      if (place === undefined || now - place.beganMs < startMs || place.pace(now) >= pace) continue
      slowest = place
      pace = place.pace(now)
    }
    return slowest
  }
}

/** The place of one upload. */
export class UploadPlace {
  readonly beganMs: number
  /** Received bytes; the upload updates it. */
  bytes = 0
  hasStage = false
  readonly #owner: RunningUploads
  readonly #network: NetworkUploads
  readonly #running: RunningUpload
  #ended = false

  constructor(owner: RunningUploads, network: NetworkUploads, running: RunningUpload, beganMs: number) {
    this.#owner = owner
    this.#network = network
    this.#running = running
    this.beganMs = beganMs
  }

  /** Called before the upload's stage. @throws RefusalError as `RunningUploads.begin` */
  takeStage(): void {
    if (this.hasStage || this.#ended) return
    this.#owner.drawStage(this.#network)
    this.hasStage = true
  }

  /** A second call does nothing. */
  end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#owner.release(this, this.#network)
  }

  get isComplete(): boolean {
    return this.#running.isComplete
  }

  /** Average bytes per second. */
  pace(now: number): number {
    return (this.bytes * 1000) / (now - this.beganMs + 1000)
  }

  /** Others need it more. */
  cutOff(): void {
    this.end()
    this.#running.cutOff(new RefusalError('error-unavailable', { retryAfter: unavailableRetrySeconds }))
  }
}

function slowestOf(places: Set<UploadPlace>, kind: Kind, now: number): UploadPlace | undefined {
  let slowest: UploadPlace | undefined
  for (const place of places) {
    if (place.isComplete || (kind === 'stages' && !place.hasStage)) continue
    if (slowest === undefined || place.pace(now) < slowest.pace(now)) slowest = place
  }
  return slowest
}
