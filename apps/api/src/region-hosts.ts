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

/** `upload-<region>` under the domain of the upload host; an upload host without a domain serves all regions itself. */
export function regionalUploadUrl(uploadUrl: string, region: RegionCode): string {
  const url = new URL(uploadUrl)
  const isAddress = url.hostname.startsWith('[') || /^[\d.]+$/.test(url.hostname)
  if (isAddress || !url.hostname.includes('.')) return uploadUrl
  const domain = url.hostname.replace(/^upload\./, '')
  const port = url.port === '' ? '' : `:${url.port}`
  return `${url.protocol}//upload-${region}.${domain}${port}`
}
