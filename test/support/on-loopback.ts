import type { Deployment } from '../../infra/regions/deployment.ts'

/** The same deployment with internal addresses of this machine, which no file may have. */
export function onLoopback(deployment: Deployment, addressOf: (internal: string) => string): Deployment {
  const regions = deployment.regions.map((region) => ({
    ...region,
    hosts: region.hosts.map((host) => ({ ...host, internal: addressOf(host.internal) })),
  }))
  return { ...deployment, regions }
}
