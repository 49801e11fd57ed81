/**
 * Where an upload goes: to the region that its host's name pins, else to the healthy one nearest to
 * the client. Without a country the own region counts as the nearest.
 */
import type { BlobStore } from '@holdfast/blob-store'
import { clientAddress } from '@holdfast/http-kit'
import type { RegionCode } from '@holdfast/kernel'
import type { FastifyRequest } from 'fastify'
import type { ClientCountries } from './regions/client-countries.ts'
import { regionsByNearness } from './regions/nearness.ts'
import { pinnedRegion } from './regions/pinned-region.ts'

export interface UploadRoutingOptions {
  own: RegionCode
  regions: readonly RegionCode[]
  countries: Pick<ClientCountries, 'countryOf'>
  /** Whether it accepts uploads now. */
  isHealthy: (region: RegionCode) => boolean
  blobsOf: (region: RegionCode) => BlobStore
}

export class UploadRouting {
  readonly #options: UploadRoutingOptions

  constructor(options: UploadRoutingOptions) {
    this.#options = options
  }

  readonly placeOf = (request: FastifyRequest): { region: RegionCode; blobs: BlobStore } => {
    const region = this.regionFor({ host: request.host, address: clientAddress(request) })
    return { region, blobs: this.#options.blobsOf(region) }
  }

  regionFor({ host, address }: { host: string | undefined; address: string }): RegionCode {
    const { own, regions, countries, isHealthy } = this.#options
    const pinned = pinnedRegion(host)
    // A pin also applies when its region is unhealthy: the upload is refused rather than stored
    // elsewhere.
    if (pinned !== undefined && regions.includes(pinned)) return pinned
    const nearness = regionsByNearness(countries.countryOf(address)) ?? [own]
    const known = nearness.filter((region) => regions.includes(region))
    return [...known, own, ...regions].find(isHealthy) ?? own
  }
}
