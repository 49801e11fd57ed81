/** A deployment of few hosts, from the example of three regions. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { threeRegions } from './deployed.ts'

const roles = ['nats', 'cassandra', 'actor-host', 'storage-node', 'upload', 'api', 'proxy']

/** The first regions of the example, each with one host. @returns its path */
export function smallFile(folder: string, { name, count }: { name: string; count: number }): string {
  const whole = parse(readFileSync(threeRegions, 'utf8')) as { regions: { hosts: object[] }[] }
  const regions = whole.regions
    .slice(0, count)
    .map(({ hosts, ...region }) => ({ ...region, hosts: [{ ...hosts[0], roles }] }))
  const file = join(folder, `${count}.yaml`)
  const { alerts: _, ...rest } = whole as { alerts?: object }
  writeFileSync(file, stringify({ ...rest, deployment: name, replicas: 1, regions }))
  return file
}
