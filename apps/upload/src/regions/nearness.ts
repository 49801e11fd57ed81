/**
 * Regions by their distance from a country: from its middle, over the globe. Network routes are not
 * straight, so this is sometimes wrong by a region; it only decides where bytes are stored first.
 */
import { type RegionCode, regionCodes } from '@holdfast/kernel'
import { countries } from './countries.ts'

interface GeoPosition {
  latitude: number
  longitude: number
}

const places: Record<RegionCode, GeoPosition> = {
  'eu-par': { latitude: 48.9, longitude: 2.4 },
  'na-phx': { latitude: 33.4, longitude: -112.1 },
  'na-nyc': { latitude: 40.7, longitude: -74.0 },
  'ap-sgp': { latitude: 1.4, longitude: 103.8 },
  'ap-hkg': { latitude: 22.3, longitude: 114.2 },
  'ap-tyo': { latitude: 35.7, longitude: 139.7 },
  'ap-syd': { latitude: -33.9, longitude: 151.2 },
  'sa-sao': { latitude: -23.5, longitude: -46.6 },
}

/**
 * Nearest first; undefined when nothing is known of the country. @param country ISO 3166, two
 * letters.
 */
export function regionsByNearness(country: string | undefined): RegionCode[] | undefined {
  const [latitude, longitude] = countries[country?.toUpperCase() ?? ''] ?? []
  if (latitude === undefined || longitude === undefined) return undefined
  const from = { latitude, longitude }
  return [...regionCodes].sort((one, other) => angle(from, places[one]) - angle(from, places[other]))
}

/** Between two places as seen from the middle of the earth, radians. */
function angle(one: GeoPosition, other: GeoPosition): number {
  const radians = (degrees: number) => (degrees * Math.PI) / 180
  const [a, b] = [radians(one.latitude), radians(other.latitude)]
  const turn = radians(one.longitude - other.longitude)
  return Math.acos(Math.min(1, Math.sin(a) * Math.sin(b) + Math.cos(a) * Math.cos(b) * Math.cos(turn)))
}
