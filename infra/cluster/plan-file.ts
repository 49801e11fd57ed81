/** The plan of the last start: `plan.json` in the data directory. */
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { StartFault } from '@holdfast/bootstrap'
import type { Choices, LocalPlan, LocalProcess, LocalRegion, ProcessRole } from './planned-processes.ts'
import { natsPorts, portKey, portNames } from './platform.ts'

/** The plan of earlier programs: each region had ports of its own for NATS, at 127.0.0.1. */
interface PlanOfVersion1 {
  version: 1
  /** Older ones have none. */
  nats?: { password: string }
  regions: (Omit<LocalRegion, 'address'> & { cassandra: string; natsPort: number; gatewayPort: number })[]
  processes: LocalProcess[]
}

/** @returns undefined before the first start. @throws StartFault: a later program made it */
export function readPlan(dataDir: string): LocalPlan | undefined {
  const path = pathIn(dataDir)
  if (!existsSync(path)) return undefined
  const plan = JSON.parse(readFileSync(path, 'utf8')) as PlanOfVersion1 | LocalPlan
  if (plan.version === 1) return upgradePlan(plan)
  if (plan.version === 2) return plan
  throw new StartFault(
    'DATA_FORMAT',
    `${path} has version ${(plan as { version: number }).version}, and this program knows 1 and 2: start the program that made it, or name another HOLDFAST_DATA_DIR`,
  )
}

/** Whole or absent; it contains secrets. */
export function writePlan(dataDir: string, plan: LocalPlan): void {
  const path = pathIn(dataDir)
  rmSync(`${path}.new`, { force: true })
  writeFileSync(`${path}.new`, `${JSON.stringify(plan, null, 2)}\n`, { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

function upgradePlan({ nats, regions, processes }: PlanOfVersion1): LocalPlan {
  const [first] = regions
  const draw = () => randomBytes(24).toString('base64url')
  const choices: Choices = {
    network: Number(first?.cassandra.split('.')[2]),
    secrets: {
      cluster: processes.find(({ admin }) => admin !== null)?.settings.HOLDFAST_CLUSTER_SECRET ?? draw(),
      nats: nats?.password ?? draw(),
      natsSystem: draw(),
    },
    ports: Object.fromEntries([
      [natsPorts.client, first?.natsPort],
      [natsPorts.gateway, first?.gatewayPort],
      ...processes.flatMap(({ name, role, settings }) =>
        (portNames[role as ProcessRole] ?? []).map((port) => [
          portKey(name, port),
          Number(settings[`HOLDFAST_${port.toUpperCase()}_PORT`]),
        ]),
      ),
    ]),
  }
  return {
    version: 2,
    choices,
    regions: regions.map(({ cassandra, natsPort: _, gatewayPort: __, ...region }) => ({
      ...region,
      address: cassandra,
    })),
    processes,
  }
}

function pathIn(dataDir: string): string {
  return join(dataDir, 'plan.json')
}
