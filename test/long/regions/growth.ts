/**
 * A region is added to a deployment that runs, by the file and `up`: two regions of one host in
 * namespaces become three, while users of both work.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { lacksOf } from '../../../infra/namespaces/namespaces.ts'
import { acceptFrom } from './acceptance.ts'
import { DeployedRegions } from './deployed.ts'
import { seconds, status, until, uploaded, worksAt } from './drills.ts'
import { leftOf } from './left.ts'
import { Load } from './load.ts'
import { smallFile } from './small-file.ts'
import { timed } from './under-load.ts'

/** @returns figures. @throws Error that says what the machine lacks, or what failed */
export async function growthTrial(report: (line: string) => void): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-growth-'))
  const [before, after] = [2, 3].map(
    (count) => new DeployedRegions(smallFile(folder, { name: 'growth', count }), join(folder, 'hosts')),
  ) as [DeployedRegions, DeployedRegions]
  const lacks = lacksOf(after.layout)
  if (lacks.length > 0) throw new Error(`this machine lacks ${lacks.join(', ')}`)
  const lines: string[] = []
  const printLine = (what: string, figures: string) => {
    lines.push(`  ${what.padEnd(22)} ${figures}`)
    report(lines.at(-1) ?? '')
  }
  try {
    printLine('up with two regions', seconds(await timed(() => before.infra('up'))))
    const old = before.regions.map(({ code }) => code)
    const files = await Promise.all(old.map((code) => uploaded(before, code)))
    await until('everything is in two regions', () => isReplicated(before, old[0] ?? ''))

    const loads = await Promise.all(old.map((code) => Load.start(before, code)))
    const upMs = await timed(() => after.infra('up'))
    const requests = await Promise.all(loads.map((load) => load.stop()))
    printLine('up with the third', seconds(upMs))
    for (const [at, { done, failed }] of requests.entries())
      printLine(`users of ${old[at]}`, `${done} requests, ${failed} failed without a repetition`)

    const codes = after.regions.map(({ code }) => code)
    const added = codes.at(-1) ?? ''
    await until(`${added} is at home`, async () =>
      (await status(after, added)).regions.every(({ actorHosts }) => actorHosts > 0),
    )
    for (const code of codes) for (const file of files) await worksAt(after, code, file)
    const own = await uploaded(after, added)
    for (const code of codes) await worksAt(after, code, own)
    printLine('accounts of before', `change and are read in ${codes.join(', ')}, and one made in ${added}`)
    await until('everything is in two regions', () => isReplicated(after, added))
    printLine(`acceptance ${added}`, await acceptFrom(after, codes.length - 1))
    printLine('up once more', seconds(await timed(() => after.infra('up'))))
  } catch (error) {
    // The first failure counts: what `up` has not made cannot be taken down.
    await after.infra('down').catch((later) => console.error('down failed, too:', later))
    throw error
  }
  await after.infra('down')
  const left = leftOf(after)
  rmSync(folder, { recursive: true })
  if (left.length > 0) throw new Error(`down left ${left.join(', ')}`)
  printLine('down', 'no process, namespace, mount, device or file is left')
  return lines.join('\n')
}

async function isReplicated(deployed: DeployedRegions, code: string): Promise<boolean> {
  const { replication, backup } = await status(deployed, code)
  return replication.full && backup.accounts === 0
}
