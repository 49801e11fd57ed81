/**
 * Three regions in namespaces by one command, TLS on every port between hosts, the acceptance suite
 * beside the users of each, everything that dashboards ask of Prometheus, a region lost and
 * returned, a host replaced, faults with the alerts that are for them, and all of it taken away.
 */
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { lacksOf } from '../../../infra/namespaces/namespaces.ts'
import { onPath } from '../../../infra/servers/tools.ts'
import { acceptFrom } from './acceptance.ts'
import { DeployedRegions, threeRegions } from './deployed.ts'
import { loseRegion, replaceHost, takesUploads } from './drills.ts'
import { encryptedOf } from './encrypted.ts'
import { leftOf } from './left.ts'
import { askAll, fireAll } from './watched.ts'

export const regionsParts = ['encrypted', 'acceptance', 'queries', 'lost', 'replaced', 'alerts'] as const

export interface RegionsOptions {
  /** Of `regionsParts`; empty: all. */
  parts: readonly string[]
  /** Folder whose namespaces the trial leaves to a later one; undefined: it ends with `down`. */
  kept: string | undefined
  /** Words of the names of faults with alerts. */
  words: readonly string[]
  /** Folder for the dashboards as pages; undefined: they are not drawn. */
  pictures: string | undefined
  report: (line: string) => void
}

/** @returns figures. @throws Error that says what the machine lacks, or what failed */
export async function regionsTrial({
  parts,
  kept,
  words,
  pictures,
  report,
}: RegionsOptions): Promise<string> {
  const unknown = parts.filter((part) => !regionsParts.some((name) => name === part))
  if (unknown.length > 0) throw new Error(`parts are ${regionsParts.join(', ')}, not ${unknown.join(', ')}`)
  const folder = kept ?? mkdtempSync(join(tmpdir(), 'holdfast-regions-'))
  const deployed = new DeployedRegions(threeRegions, folder)
  const lacks = [...lacksOf(deployed.layout), ...(onPath('curl') === undefined ? ['the package curl'] : [])]
  if (lacks.length > 0) throw new Error(`this machine lacks ${lacks.join(', ')}`)
  const lines: string[] = []
  const failures: string[] = []
  const printLine = (...more: string[]) => {
    for (const line of more) report(line)
    lines.push(...more)
  }
  const tried = async (part: (typeof regionsParts)[number], work: () => Promise<string[]>) => {
    if (parts.length > 0 && !parts.includes(part)) return
    try {
      printLine(...(await work()))
    } catch (error) {
      report((error as Error).message)
      failures.push((error as Error).message)
    }
  }
  const startedMs = performance.now()
  try {
    await deployed.infra('up')
    printLine(
      `  up                     ${Math.round((performance.now() - startedMs) / 1_000)} s, ${memoryMiB()} MiB`,
    )
    await deployed.infra('status')
    await takesUploads(deployed)
    await tried('encrypted', () => encryptedOf(deployed))
    for (const [at, { code }] of deployed.regions.entries())
      await tried('acceptance', async () => [`  acceptance ${code}      ${await acceptFrom(deployed, at)}`])
    await tried('queries', () => askAll(deployed, pictures))
    await tried('lost', () => loseRegion(deployed, 'na-nyc', 'eu-par'))
    await tried('replaced', () => replaceHost(deployed, 'par2', 'eu-par'))
    await tried('alerts', () => fireAll(deployed, { words, report }))
  } catch (error) {
    // The first failure counts: what `up` has not made cannot be taken down.
    if (kept !== undefined) throw error
    await deployed.infra('down').catch((later) => console.error('down failed, too:', later))
    throw error
  }
  if (kept === undefined) {
    await deployed.infra('down')
    const left = leftOf(deployed)
    if (left.length > 0) failures.push(`down left ${left.join(', ')}`)
    else printLine('  down                   no process, namespace, mount, device or file is left')
  }
  if (failures.length > 0) throw new Error(failures.join('\n'))
  return lines.join('\n')
}

/** In use on the whole machine. */
function memoryMiB(): number {
  const text = readFileSync('/proc/meminfo', 'utf8')
  const kib = (name: string) => Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(text)?.[1])
  return Math.round((kib('MemTotal') - kib('MemAvailable')) / 1024)
}
