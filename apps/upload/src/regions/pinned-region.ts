import { type RegionCode, regionCodes } from '@holdfast/kernel'

/**
 * The region that an upload host's name pins: `upload-<region>` alone or in a domain, with or
 * without a port.
 */
export function pinnedRegion(host: string | undefined): RegionCode | undefined {
  const [, code] = /^upload-([a-z]{2}-[a-z]{3})(?:[.:]|$)/i.exec(host ?? '') ?? []
  return regionCodes.find((region) => region === code?.toLowerCase())
}
