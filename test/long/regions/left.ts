/** What `down` of a deployment in namespaces has left on this machine. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { netnsOf } from '../../../infra/namespaces/layout.ts'
import type { DeployedRegions } from './deployed.ts'

/** @returns folders, namespaces, devices, processes and mounts */
export function leftOf({ layout }: DeployedRegions): string[] {
  const said = (command: string, ...words: string[]) =>
    spawnSync(command, words, { encoding: 'utf8' }).stdout.split('\n')
  return [
    ...(existsSync(layout.folder) ? [layout.folder] : []),
    ...said('ip', 'netns', 'list').filter((line) => line.startsWith(netnsOf(layout, ''))),
    ...said('ip', '-o', 'link').filter((line) => /\bhf[0-9a-f]{8}-/.test(line)),
    ...said('ps', '-eo', 'args').filter((line) => line.includes(layout.folder)),
    ...readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .filter((line) => line.includes(layout.folder)),
  ]
}
