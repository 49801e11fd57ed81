/** What a deployment may be, although it is probably not meant. */
import { hostsWith, type Plan } from './plan.ts'

export function warningsOf({ regions }: Plan): string[] {
  const proxiesWith = (field: 'address' | 'address6') =>
    regions.filter(({ hosts }) => hostsWith(hosts, 'proxy').some((host) => host[field] !== undefined))
  const [four, six] = [proxiesWith('address'), proxiesWith('address6')]
  const lacks = (some: typeof regions, field: string, version: string) =>
    some.length === 0 || some.length === regions.length
      ? []
      : [
          `${regions
            .filter((region) => !some.includes(region))
            .map(({ code }) => code)
            .join(', ')}: no proxy has ${field}, so users with ${version} alone go to other regions`,
        ]
  return [...lacks(four, 'address', 'IPv4'), ...lacks(six, 'address6', 'IPv6')]
}
