/**
 * An operator's rarer work on a deployment of two regions of three hosts, by the procedures of
 * `infra/OPERATING.md`: TLS in four steps, a new authority, more replicas, a node of Cassandra that
 * is added and removed, a reboot, Cassandra's own authority, a stolen host.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { lacksOf } from '../../../infra/namespaces/namespaces.ts'
import { addNode, moreReplicas, ownAuthority, removeNode } from './cassandra-drills.ts'
import { DeployedRegions } from './deployed.ts'
import { seconds, takesUploads } from './drills.ts'
import { leftOf } from './left.ts'
import { rebootHost } from './reboot.ts'
import { middleFile } from './small-file.ts'
import { stolenHost } from './stolen.ts'
import { replaceAuthority, stepsToTls, tlsSettings } from './trust-drills.ts'
import { keptLines, lineOf, timed } from './under-load.ts'

type Part = (deployed: DeployedRegions) => AsyncIterable<string>

/** Later ones need what earlier ones left. */
const parts: Readonly<Record<string, Part>> = {
  tls: stepsToTls,
  authority: replaceAuthority,
  replicas: moreReplicas,
  added: addNode,
  removed: removeNode,
  reboot: rebootHost,
  internode: ownAuthority,
  stolen: stolenHost,
}

export interface UpkeepOptions {
  /** Empty: all. */
  chosen: readonly string[]
  /** Folder whose namespaces the trial leaves to a later one; undefined: it ends with `down`. */
  kept: string | undefined
  report: (line: string) => void
}

/** @returns figures. @throws Error that says what the machine lacks, or what failed */
export async function upkeepTrial({ chosen, kept, report }: UpkeepOptions): Promise<string> {
  const unknown = chosen.filter((part) => parts[part] === undefined)
  if (unknown.length > 0)
    throw new Error(`parts are ${Object.keys(parts).join(', ')}, not ${unknown.join(', ')}`)
  const folder = kept ?? mkdtempSync(join(tmpdir(), 'holdfast-upkeep-'))
  const name = 'upkeep'
  const known = join(folder, `${name}.yaml`)
  const file = existsSync(known)
    ? known
    : middleFile(folder, { name, count: 2, replicas: 1, settings: tlsSettings('off') })
  const deployed = new DeployedRegions(file, join(folder, 'hosts'))
  const lacks = lacksOf(deployed.layout)
  if (lacks.length > 0) throw new Error(`this machine lacks ${lacks.join(', ')}`)
  const { lines, printLine } = keptLines(report)
  try {
    printLine(lineOf('up', seconds(await timed(() => deployed.infra('up')))))
    await takesUploads(deployed)
    for (const [part, carryOut] of Object.entries(parts))
      if (chosen.length === 0 || chosen.includes(part))
        for await (const line of carryOut(deployed)) printLine(line)
  } catch (error) {
    // The first failure counts: what `up` has not made cannot be taken down.
    if (kept === undefined)
      await deployed.infra('down').catch((later) => console.error('down failed, too:', later))
    throw error
  }
  if (kept === undefined) {
    await deployed.infra('down')
    const left = leftOf(deployed)
    rmSync(folder, { recursive: true })
    if (left.length > 0) throw new Error(`down left ${left.join(', ')}`)
  }
  return lines.join('\n')
}
