/** Deployments with fewer hosts, from the example of three regions. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { threeRegions, type Written } from './deployed.ts'

const roles = ['nats', 'cassandra', 'actor-host', 'storage-node', 'upload', 'api', 'proxy']

interface Example extends Written {
  deployment: string
  alerts?: object
}

export interface SmallFile {
  /** Of the deployment. */
  name: string
  /** The first regions of the example. */
  count: number
}

/** Each with one host. @returns its path */
export function smallFile(folder: string, { name, count }: SmallFile): string {
  const { alerts: _, ...whole } = example()
  const regions = whole.regions.slice(0, count).map(({ hosts, ...region }) => ({
    ...region,
    hosts: [{ ...hosts[0], roles }],
  }))
  const file = join(folder, `${count}.yaml`)
  writeFileSync(file, stringify({ ...whole, deployment: name, replicas: 1, regions }))
  return file
}

/** With all hosts of each. @returns its path */
export function middleFile(
  folder: string,
  { name, count, ...more }: SmallFile & Pick<Written, 'replicas' | 'settings'>,
): string {
  const whole = example()
  const file = join(folder, `${name}.yaml`)
  const settings = { ...whole.settings, ...more.settings }
  const regions = whole.regions.slice(0, count)
  writeFileSync(file, stringify({ ...whole, ...more, deployment: name, settings, regions }))
  return file
}

function example(): Example {
  return parse(readFileSync(threeRegions, 'utf8')) as Example
}
