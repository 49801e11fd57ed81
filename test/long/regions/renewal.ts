/**
 * Every certificate and secret of a deployment is replaced while users of two regions work, by the
 * procedures of `infra/OPERATING.md` ("Certificates and secrets"). No request may fail. A proxy
 * that is reloaded closes idle connections, also one on which a request is just coming: users send
 * such requests again with their key.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { lacksOf } from '../../../infra/namespaces/namespaces.ts'
import { DeployedRegions } from './deployed.ts'
import { seconds, takesUploads } from './drills.ts'
import { leftOf } from './left.ts'
import {
  replaceCassandraPassword,
  replaceCertificates,
  replaceClusterSecret,
  replaceNatsPasswords,
  replaceTokens,
} from './replacements.ts'
import { smallFile } from './small-file.ts'
import { keptLines, lineOf, timed, underLoad } from './under-load.ts'

/** @returns figures. @throws Error that says what the machine lacks, or what failed */
export async function renewalTrial(report: (line: string) => void): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-renewal-'))
  const deployed = new DeployedRegions(
    smallFile(folder, { name: 'renewal', count: 2 }),
    join(folder, 'hosts'),
  )
  const lacks = lacksOf(deployed.layout)
  if (lacks.length > 0) throw new Error(`this machine lacks ${lacks.join(', ')}`)
  const { lines, printLine } = keptLines(report)
  try {
    const upMs = await timed(() => deployed.infra('up'))
    printLine(lineOf('up', seconds(upMs)))
    await takesUploads(deployed)
    for (const [what, replace] of replacements)
      printLine(lineOf(what, await underLoad(deployed, () => replace(deployed), { repeats: 'cut' })))
  } catch (error) {
    await deployed.infra('down').catch((later) => console.error('down failed, too:', later))
    throw error
  }
  await deployed.infra('down')
  const left = leftOf(deployed)
  rmSync(folder, { recursive: true })
  if (left.length > 0) throw new Error(`down left ${left.join(', ')}`)
  return lines.join('\n')
}

type Replace = (deployed: DeployedRegions) => Promise<void>

const replacements: readonly [what: string, replace: Replace][] = [
  ['every certificate', replaceCertificates],
  ['cluster-secret', replaceClusterSecret],
  ['admin and metrics token', replaceTokens],
  ['password of Cassandra', replaceCassandraPassword],
  ['passwords of NATS', replaceNatsPasswords],
]
