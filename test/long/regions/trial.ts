/**
 * Three regions in namespaces by one command, the acceptance suite beside the users of each,
 * everything that dashboards ask of Prometheus, a region lost and returned, a host replaced, faults
 * with the alerts that are for them, and all of it taken away.
 */
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { lacksOf } from '../../../infra/namespaces/namespaces.ts'
import { onPath } from '../../../infra/servers/tools.ts'
import { acceptFrom } from './acceptance.ts'
import { DeployedRegions, threeRegions } from './deployed.ts'
import { loseRegion, replaceHost } from './drills.ts'
import { leftOf } from './left.ts'
import { askAll, fireAll } from './watched.ts'

/** @returns figures. @throws Error that says what the machine lacks, or what failed */
export async function regionsTrial(report: (line: string) => void): Promise<string> {
  const deployed = new DeployedRegions(threeRegions, mkdtempSync(join(tmpdir(), 'holdfast-regions-')))
  const lacks = [...lacksOf(deployed.layout), ...(onPath('curl') === undefined ? ['the package curl'] : [])]
  if (lacks.length > 0) throw new Error(`this machine lacks ${lacks.join(', ')}`)
  const lines: string[] = []
  const failures: string[] = []
  const printLine = (...more: string[]) => {
    for (const line of more) report(line)
    lines.push(...more)
  }
  const tried = async (part: () => Promise<string[]>) => {
    try {
      printLine(...(await part()))
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
    for (const [at, { code }] of deployed.regions.entries())
      await tried(async () => [`  acceptance ${code}      ${await acceptFrom(deployed, at)}`])
    await tried(() => askAll(deployed))
    await tried(() => loseRegion(deployed, 'na-nyc', 'eu-par'))
    await tried(() => replaceHost(deployed, 'par2', 'eu-par'))
    await tried(() => fireAll(deployed))
  } catch (error) {
    // The first failure counts: what `up` has not made cannot be taken down.
    await deployed.infra('down').catch((later) => console.error('down failed, too:', later))
    throw error
  }
  await deployed.infra('down')
  const left = leftOf(deployed)
  if (left.length > 0) failures.push(`down left ${left.join(', ')}`)
  else printLine('  down                   no process, namespace, mount, device or file is left')
  if (failures.length > 0) throw new Error(failures.join('\n'))
  return lines.join('\n')
}

/** In use on the whole machine. */
function memoryMiB(): number {
  const text = readFileSync('/proc/meminfo', 'utf8')
  const kib = (name: string) => Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(text)?.[1])
  return Math.round((kib('MemTotal') - kib('MemAvailable')) / 1024)
}
