/**
 * The drills of day two: what an operator does to a cluster that serves, by the commands of
 * `infra/OPERATING.md`, and what its users notice.
 */
import assert from 'node:assert/strict'
import { LocalCluster } from '../../cluster/local-cluster.ts'
import { previousRelease } from '../../support/earlier-code.ts'
import { backupDrills } from './backup-drill.ts'
import { cassandraDrills } from './cassandra-drills.ts'
import type { Drill } from './drill.ts'
import { Office, seconds } from './office.ts'
import { owedDrill } from './owed-drill.ts'
import { regionDrills } from './region-drills.ts'
import { rollingDrills } from './rolling-drills.ts'
import { storageDrills } from './storage-drills.ts'

export const drills: readonly Drill[] = [
  ...rollingDrills,
  ...cassandraDrills,
  ...storageDrills,
  ...regionDrills,
  owedDrill,
  ...backupDrills,
]

export interface DayTwoOptions {
  /** Words of the names of drills. */
  words: readonly string[]
  /** The commit with whose code the upgrade begins. Default: the previous release. */
  from: string | undefined
  /** Number of accounts in the region that is evacuated. */
  accounts: number
  seed: number
  report: (line: string) => void
}

/** @throws AssertionError naming the drills that failed */
export async function dayTwo({ words, from, accounts, seed, report }: DayTwoOptions): Promise<string> {
  const failed: string[] = []
  const chosen = drills.filter(({ name }) => words.some((text) => name.includes(text)))
  let office: Office | undefined
  try {
    for (const [at, { name, run, changesCluster = false, beginsEarlier = false }] of chosen.entries()) {
      if (beginsEarlier) {
        await office?.close()
        office = await Office.of(await LocalCluster.start({ from: from ?? previousRelease() }))
      }
      office ??= await Office.of(await LocalCluster.start())
      const beganMs = performance.now()
      let isBroken = changesCluster || beginsEarlier
      try {
        const lines = await run(office, seed + at, { accounts, report })
        report(`  ${name} (${seconds(performance.now() - beganMs)})`)
        for (const line of lines) report(`    ${line}`)
      } catch (error) {
        failed.push(name)
        isBroken = true
        report(`  ${name}: failed\n${(error as Error).stack}`)
      }
      if (!isBroken) continue
      await office.close()
      office = undefined
    }
  } finally {
    await office?.close()
  }
  assert.deepEqual(failed, [], 'drills that failed')
  return `  drills              ${chosen.length}, every promise kept`
}
