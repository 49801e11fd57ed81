/** What a deployment may be, although it is probably not meant. */
import { hostsWith, type Plan } from './plan.ts'
import { regionMark } from './render/alertmanager.ts'

export function warningsOf(plan: Plan): string[] {
  return [...ofUsers(plan), ...ofMails(plan), ...ofAlerts(plan)]
}

function ofMails({ deployment }: Plan): string[] {
  return deployment.mail === undefined
    ? ['mail is missing: mails with sign-in links stay in files on the hosts']
    : []
}

function ofAlerts({ deployment, regions }: Plan): string[] {
  const hosts = regions.flatMap((region) => region.hosts)
  const blind = regions.filter((region) => hostsWith(region.hosts, 'prometheus').length === 0)
  const { watchdog } = deployment.alerts
  const isShared =
    watchdog !== undefined && !watchdog.includes(regionMark) && regions.length - blind.length > 1
  return [
    ...(isShared
      ? [
          `alerts.watchdog has no ${regionMark}: while the Prometheus of one region calls it, that of another one is not missed`,
        ]
      : []),
    ...(deployment.alerts.page === undefined ? ['alerts.page is missing: no alert wakes anybody'] : []),
    ...(hostsWith(hosts, 'alertmanager').length === 0
      ? ['no host has the role alertmanager: alerts are sent to no person']
      : []),
    ...(blind.length === 0
      ? []
      : [
          `${blind.map(({ code }) => code).join(', ')}: no host has the role prometheus, so nothing there is watched`,
        ]),
  ]
}

function ofUsers({ regions }: Plan): string[] {
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
  const unreached =
    four.length === 0 ? ['no proxy has address, so users with IPv4 alone reach no region'] : []
  return [...unreached, ...lacks(four, 'address', 'IPv4'), ...lacks(six, 'address6', 'IPv6')]
}
