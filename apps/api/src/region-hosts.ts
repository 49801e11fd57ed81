/** The eight regions of the contract and where their upload hosts are. */
import type { RegionCode } from '@holdfast/kernel'

export const regionNames: Record<RegionCode, string> = {
  'eu-par': 'Europe (Paris)',
  'na-phx': 'North America (Phoenix)',
  'na-nyc': 'North America (New York City)',
  'ap-sgp': 'Asia Pacific (Singapore)',
  'ap-hkg': 'Asia Pacific (Hong Kong)',
  'ap-tyo': 'Asia Pacific (Tokyo)',
  'ap-syd': 'Asia Pacific (Sydney)',
  'sa-sao': 'South America (Sao Paulo)',
}

/**
 * The URL of a region's upload host: `upload-<region>` under the domain of the upload host. If the
 * upload host has no domain, it is the URL that `uploadUrlOf` returns. If that is undefined, it is
 * the URL of the upload host, which then serves all regions itself.
 */
export function regionalUploadUrl(
  uploadUrl: string,
  region: RegionCode,
  uploadUrlOf: (region: RegionCode) => string | undefined = () => undefined,
): string {
  const url = new URL(uploadUrl)
  const isAddress = url.hostname.startsWith('[') || /^[\d.]+$/.test(url.hostname)
  if (isAddress || !url.hostname.includes('.')) return uploadUrlOf(region) ?? uploadUrl
  const domain = url.hostname.replace(/^upload\./, '')
  const port = url.port === '' ? '' : `:${url.port}`
  return `${url.protocol}//upload-${region}.${domain}${port}`
}
